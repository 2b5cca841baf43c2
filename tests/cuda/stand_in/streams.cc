// The driver's functions of streams, events, captures and graphs.
#include "calls.h"

using namespace stand_in;

namespace {

// All nodes that some nodes come after, and these.
std::set<size_t> closure(const Graph& graph, const std::set<size_t>& nodes) {
  std::set<size_t> found = nodes;
  for (size_t number = graph.nodes.size(); number-- > 0;) {
    if (found.count(number)) {
      found.insert(graph.nodes[number].after.begin(), graph.nodes[number].after.end());
    }
  }
  return found;
}

}  // namespace

CALL(cuStreamCreate, void** stream, unsigned flags) {
  IN_CONTEXT;
  if (flags != 1) return complain("a stream that waits for the default stream");
  *stream = new Stream("stream");
  return kSuccess;
}

CALL(cuStreamDestroy_v2, void* handle) {
  IN_CONTEXT;
  GET(Stream, stream, handle);
  if (stream->capture) return complain("a stream was destroyed in its capture");
  stream->alive = false;
  return kSuccess;
}

CALL(cuStreamSynchronize, void* handle) {
  IN_CONTEXT;
  GET(Stream, stream, handle ? handle : default_stream());
  if (stream->capture) {
    stream->capture->invalid = true;
    return kCaptureUnsupported;
  }
  return run_until(stream->tail);
}

CALL(cuEventCreate, void** event, unsigned flags) {
  IN_CONTEXT;
  *event = new Event(!(flags & 2));
  return kSuccess;
}

CALL(cuEventDestroy_v2, void* handle) {
  IN_CONTEXT;
  GET(Event, event, handle);
  event->alive = false;
  return kSuccess;
}

CALL(cuEventRecord, void* handle, void* queue) {
  IN_CONTEXT;
  GET(Event, event, handle);
  GET(Stream, stream, queue);
  if (stream->capture) {
    if (stream->capture->invalid) return kCaptureInvalidated;
    event->work = nullptr;
    event->capture = stream->capture;
    event->captured = stream->captured_tail;
    return kSuccess;
  }
  append(stream, [] { return kSuccess; });
  event->work = stream->tail.front();
  event->capture = nullptr;
  return kSuccess;
}

#ifndef OLDER_DRIVER
// With the flag 1 the record is part of the graph that is being captured.
CALL(cuEventRecordWithFlags, void* handle, void* queue, unsigned flags) {
  IN_CONTEXT;
  GET(Event, event, handle);
  GET(Stream, stream, queue);
  if (flags != 1 || !stream->capture) return kInvalidValue;
  return append(stream, [event] {
    event->work = std::make_shared<Work>();
    event->work->done = true;
    event->work->seconds = (state().clock + 1) * 1e-6;
    return kSuccess;
  });
}
#endif

CALL(cuStreamWaitEvent, void* queue, void* handle, unsigned) {
  IN_CONTEXT;
  GET(Stream, stream, queue);
  GET(Event, event, handle);
  if (event->capture) {
    if (event->capture->ended) return kCapturedEvent;
    if (event->capture->invalid) return kCaptureInvalidated;
    if (stream->capture && stream->capture != event->capture) return kCaptureIsolation;
    if (!stream->capture) {
      stream->capture = event->capture;
      stream->captured_tail.clear();
      stream->capture->streams.insert(stream);
    }
    stream->captured_tail.insert(event->captured.begin(), event->captured.end());
    return kSuccess;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return kCaptureIsolation;
  }
  if (!event->work) return complain("a stream waits for an event that was never recorded");
  stream->tail.push_back(event->work);
  return kSuccess;
}

CALL(cuEventSynchronize, void* handle) {
  IN_CONTEXT;
  GET(Event, event, handle);
  if (event->capture) return kCapturedEvent;
  if (!event->work) return complain("the host waits for an event that was never recorded");
  return run_until({event->work});
}

CALL(cuEventElapsedTime, float* milliseconds, void* first, void* second) {
  IN_CONTEXT;
  GET(Event, begin, first);
  GET(Event, end, second);
  if (!begin->timing || !end->timing || !begin->work || !end->work) return kInvalidHandle;
  if (!begin->work->done || !end->work->done) return kNotReady;
  *milliseconds = static_cast<float>((end->work->seconds - begin->work->seconds) * 1e3);
  return kSuccess;
}

#ifndef OLDER_DRIVER
CALL(cuEventElapsedTime_v2, float* milliseconds, void* first, void* second) {
  return cuEventElapsedTime(milliseconds, first, second);
}
#endif

CALL(cuStreamBeginCapture_v2, void* queue, int mode) {
  IN_CONTEXT;
  GET(Stream, stream, queue);
  if (mode != 1) return complain("the capture is not thread-local");
  if (stream->capture) return kCaptureUnsupported;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->graph = new Graph;
  capture->streams = {stream};
  stream->capture = capture;
  stream->captured_tail.clear();
  captures().insert(capture);
  return kSuccess;
}

CALL(cuStreamEndCapture, void* queue, void** graph) {
  IN_CONTEXT;
  GET(Stream, stream, queue);
  auto capture = stream->capture;
  *graph = nullptr;
  if (!capture || capture->origin != stream || !captures().count(capture)) {
    return kCaptureUnmatched;
  }
  captures().erase(capture);
  capture->ended = true;
  const std::set<size_t> joined = closure(*capture->graph, stream->captured_tail);
  bool unjoined = false;
  for (Stream* other : capture->streams) {
    for (size_t node : other->captured_tail) unjoined |= !joined.count(node);
    other->capture = nullptr;
    other->captured_tail.clear();
  }
  if (capture->invalid || unjoined) {
    capture->graph->alive = false;
    return capture->invalid ? kCaptureInvalidated : kCaptureUnjoined;
  }
  *graph = capture->graph;
  return kSuccess;
}

CALL(cuGraphDestroy, void* handle) {
  IN_CONTEXT;
  GET(Graph, graph, handle);
  graph->alive = false;
  return kSuccess;
}

CALL(cuGraphInstantiateWithFlags, void** exec, void* handle, unsigned long long) {
  IN_CONTEXT;
  GET(Graph, graph, handle);
  auto* made = new GraphExec;
  made->nodes = graph->nodes;
  *exec = made;
  return kSuccess;
}

CALL(cuGraphExecDestroy, void* handle) {
  IN_CONTEXT;
  GET(GraphExec, exec, handle);
  exec->alive = false;
  return kSuccess;
}

#ifndef OLDER_DRIVER
CALL(cuGraphUpload, void* handle, void* queue) {
  IN_CONTEXT;
  GET(GraphExec, exec, handle);
  GET(Stream, stream, queue);
  return append(stream, [] { return kSuccess; });
}
#endif

CALL(cuGraphLaunch, void* handle, void* queue) {
  IN_CONTEXT;
  GET(GraphExec, exec, handle);
  GET(Stream, stream, queue);
  if (stream->capture) return complain("a graph in a graph");
  Works before = stream->tail;
  before.insert(before.end(), exec->last.begin(), exec->last.end());
  Works made;
  for (const GraphNode& node : exec->nodes) {
    auto work = std::make_shared<Work>();
    for (size_t other : node.after) work->after.push_back(made[other]);
    if (node.begin == Begin::kEarly) work->after = before_these(work->after);
    if (node.after.empty()) work->after = before;
    work->run = node.run;
    work->lane = node.lane;
    made.push_back(work);
    issue(work);
  }
  stream->tail.insert(stream->tail.end(), made.begin(), made.end());
  append(stream, [] { return kSuccess; });
  exec->last = stream->tail;
  return kSuccess;
}
