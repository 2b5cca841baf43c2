// Streams of pending work, and the random order in which it runs.
#include <algorithm>
#include <cstdlib>

#include "driver.h"

namespace stand_in {

State& state() {
  static State* whole = new State;
  return *whole;
}

bool idle() {
  static const bool wanted = std::getenv("STAND_IN_IDLE") != nullptr;
  return wanted;
}

Handle::Handle(const char* name) : kind(name) { state().handles.push_back(this); }

Stream::Stream(const char* name) : Handle(name), lane(++state().lanes) {}

Stream* default_stream() {
  static Stream* only = new Stream("default stream");
  return only;
}

std::set<std::shared_ptr<Capture>>& captures() {
  static thread_local std::set<std::shared_ptr<Capture>> own;
  return own;
}

Result complain(const std::string& text) {
  state().complaint = text;
  return kComplaint;
}

bool within(const std::map<uintptr_t, size_t>& allocations, uintptr_t begin, size_t nbytes) {
  auto next = allocations.upper_bound(begin);
  if (next == allocations.begin()) return false;
  --next;
  return begin + nbytes <= next->first + next->second;
}

Result reject_in_capture() {
  if (captures().empty()) return kSuccess;
  for (auto& capture : captures()) capture->invalid = true;
  return kCaptureUnsupported;
}

namespace {

void run(const std::shared_ptr<Work>& work) {
  State& all = state();
  if (all.sticky == kSuccess) all.sticky = work->run();
  work->done = true;
  work->after.clear();
  work->seconds = ++all.clock * 1e-6;
}

}  // namespace

void issue(const std::shared_ptr<Work>& work) {
  if (idle()) {
    run(work);
  } else {
    state().pending.push_back(work);
  }
}

Works before_these(const Works& works) {
  Works before;
  for (auto& work : works) before.insert(before.end(), work->after.begin(), work->after.end());
  return before;
}

Result append(Stream* stream, std::function<Result()> run, Begin begin) {
  if (stream->capture) {
    if (stream->capture->invalid) return kCaptureInvalidated;
    std::vector<GraphNode>& nodes = stream->capture->graph->nodes;
    const std::set<size_t>& tail = stream->captured_tail;
    if (begin == Begin::kEarly || begin == Begin::kEarlyAndWaits) {
      // What then happens with edges of other kinds is not documented.
      if (tail.size() != 1 || nodes[*tail.begin()].begin == Begin::kOther) {
        return complain("an early launch after something else than one kernel");
      }
    }
    nodes.push_back({{tail.begin(), tail.end()}, std::move(run), stream->lane, begin});
    stream->captured_tail = {nodes.size() - 1};
    return kSuccess;
  }
  auto work = std::make_shared<Work>();
  work->after = begin == Begin::kEarly ? before_these(stream->tail) : stream->tail;
  work->run = std::move(run);
  work->lane = stream->lane;
  // The stream has ended when both have.
  if (begin != Begin::kEarly) stream->tail.clear();
  stream->tail.push_back(work);
  issue(work);
  return kSuccess;
}

namespace {

bool ready(const std::shared_ptr<Work>& work) {
  return std::all_of(work->after.begin(), work->after.end(),
                     [](const std::shared_ptr<Work>& other) { return other->done; });
}

}  // namespace

Result run_until(const Works& wanted) {
  State& all = state();
  // One stream may be far ahead of another one, which is where missing events show.
  std::map<int, unsigned> haste;
  for (auto& work : all.pending) haste.emplace(work->lane, all.random());
  const bool hasty = all.random() % 4 != 0;
  while (!std::all_of(wanted.begin(), wanted.end(), [](auto& work) { return work->done; })) {
    Works possible;
    for (auto& work : all.pending) {
      if (ready(work)) possible.push_back(work);
    }
    if (possible.empty()) return complain("what is waited for never runs");
    std::shuffle(possible.begin(), possible.end(), all.random);
    auto chosen = possible.front();
    if (hasty) {
      chosen = *std::max_element(possible.begin(), possible.end(), [&](auto& a, auto& b) {
        return haste[a->lane] < haste[b->lane];
      });
    }
    run(chosen);
    all.pending.erase(std::find(all.pending.begin(), all.pending.end(), chosen));
  }
  return all.sticky;
}

}  // namespace stand_in
