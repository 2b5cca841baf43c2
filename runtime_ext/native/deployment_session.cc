#include "deployment_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exclusive.h"

namespace tvm_ios {

namespace {

std::vector<std::string> Names(const std::vector<TensorType>& tensors) {
  std::vector<std::string> names;
  for (const TensorType& tensor : tensors) names.push_back(tensor.name);
  return names;
}

// The types of all programs' inputs or outputs; extents in which they differ are -1.
void Merge(std::vector<BufferType>* merged, const std::vector<TensorType>& more, bool fewer_rows) {
  for (std::size_t i = 0; i < std::min(merged->size(), more.size()); ++i) {
    std::vector<std::int64_t>& shape = (*merged)[i].shape;
    const std::vector<std::int64_t>& other = more[i].type.shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const bool differ = other.size() != shape.size() || other[axis] != shape[axis];
      if (differ || (axis == 0 && fewer_rows)) shape[axis] = -1;
    }
  }
}

std::vector<BufferType> Types(const std::vector<TensorType>& tensors) {
  std::vector<BufferType> types;
  for (const TensorType& tensor : tensors) types.push_back(tensor.type);
  return types;
}

// Whether inputs are given to a program as they are, without more rows.
bool Serves(const Entry& entry, const Shapes& shapes) {
  if (entry.IsOfRange()) return true;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (entry.inputs[i].type.shape != shapes[i].second) return false;
  }
  return true;
}

[[noreturn]] void Misstated(const Entry& entry, const std::string& what) {
  RefuseDeployment("entry " + entry.id + " " + what + "; make the deployment again");
}

}  // namespace

DeploymentSession::DeploymentSession(Deployment deployment, std::int64_t lanes, bool one_lane)
    : deployment_(std::move(deployment)),
      machine_(ThisMachine(deployment_.entries, lanes)),
      one_lane_(one_lane) {
  const std::vector<Entry>& entries = deployment_.entries;
  if (entries.empty()) {
    RefuseDeployment(deployment_.folder +
                     " has no entries; add one with `tvm-ios optimize -o`");
  }
  std::vector<const Entry*> usable;
  for (const Entry& entry : entries) {
    if (MachineMisfit(entry, machine_).empty()) usable.push_back(&entry);
  }
  if (usable.empty()) usable.push_back(&entries[0]);
  for (const Entry* entry : usable) {
    const std::vector<TensorType> outputs = ProgramOutputs(deployment_, *entry);
    if (input_types_.empty() && output_types_.empty()) {
      input_names_ = Names(entry->inputs);
      output_names_ = Names(outputs);
      input_types_ = Types(entry->inputs);
      output_types_ = Types(outputs);
    }
    const bool fewer_rows = entry->padding && entry->batch > 1;
    Merge(&input_types_, entry->inputs, fewer_rows);
    Merge(&output_types_, outputs, fewer_rows);
  }
  values_.resize(input_names_.size());
}

const DeploymentSession::Served& DeploymentSession::RequireServed(const std::string& what) const {
  if (!served_) Misuse(what + " is not known before a complete run");
  return *served_;
}

BufferType DeploymentSession::Served::OutputType(std::size_t which) const {
  BufferType type = open->session->OutputType(open->outputs[which]);
  if (rows) type.shape[0] = *rows;
  return type;
}

std::size_t DeploymentSession::Chosen() {
  const Exclusive exclusive(&inside_);
  return RequireServed("which program serves the inputs").entry;
}

BufferType DeploymentSession::InputType(std::size_t which) {
  const Exclusive exclusive(&inside_);
  return values_[which].number == 0 ? input_types_[which] : values_[which].type;
}

BufferType DeploymentSession::OutputType(std::size_t which) {
  const Exclusive exclusive(&inside_);
  return served_ ? served_->OutputType(which) : output_types_[which];
}

void DeploymentSession::SetInput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  BufferType type = HostTensorType("input", input_names_[which], value);
  const std::vector<Entry>& entries = deployment_.entries;
  const bool known = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.inputs[which].type.dtype == type.dtype;
  });
  if (!known) {
    Misuse("input '" + input_names_[which] + "' is of type " + input_types_[which].dtype +
           " and the tensor is " + type.Name());
  }
  Value& own = values_[which];
  if (own.number == 0 || !(own.type == type)) own.block = Allocate(type.Bytes());
  std::memcpy(own.block.get(), FirstByte(value), type.Bytes());
  own.type = std::move(type);
  own.number = ++values_set_;
}

ffi::Tensor DeploymentSession::GetInput(std::size_t which) {
  const Exclusive exclusive(&inside_);
  const Value& value = values_[which];
  if (value.number == 0) Misuse("input '" + input_names_[which] + "' was never set");
  const Block copy = Allocate(value.type.Bytes());
  std::memcpy(copy.get(), value.block.get(), value.type.Bytes());
  return TensorIn(copy, 0, value.type);
}

ffi::Tensor DeploymentSession::GetOutput(std::size_t which) {
  const Exclusive exclusive(&inside_);
  const Served& served = RequireServed("output '" + output_names_[which] + "'");
  Session& session = *served.open->session;
  const std::size_t number = served.open->outputs[which];
  if (!served.rows) return session.GetOutput(number);
  const BufferType whole = session.OutputType(number);
  const Block block = Allocate(whole.Bytes());
  const ffi::Tensor all = TensorIn(block, 0, whole);
  session.GetOutput(number, all);
  return TensorIn(block, 0, served.OutputType(which));
}

void DeploymentSession::GetOutput(std::size_t which, ffi::TensorView value) {
  const ffi::Tensor own = GetOutput(which);
  const BufferType type{{own.shape().begin(), own.shape().end()},
                        ffi::DLDataTypeToString(own.dtype())};
  RequireType("output", output_names_[which], type, value);
  std::memcpy(FirstByte(value), FirstByte(own), type.Bytes());
}

void DeploymentSession::BindState(std::size_t, std::size_t) {
  Misuse("a deployment keeps no states: load one of its entries");
}

void DeploymentSession::ResetStates() { BindState(0, 0); }

void DeploymentSession::Run() {
  const Exclusive exclusive(&inside_);
  Ready().Run();
}

std::vector<double> DeploymentSession::Benchmark(std::int64_t number, std::int64_t repeat) {
  const Exclusive exclusive(&inside_);
  return Ready().Benchmark(number, repeat);
}

std::vector<LaunchSpan> DeploymentSession::Profile() {
  const Exclusive exclusive(&inside_);
  return Ready().Profile();
}

void DeploymentSession::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  for (auto& [entry, open] : open_) open.session->Close();
}

void DeploymentSession::Reserve() {
  const Exclusive exclusive(&inside_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    RequireOpen();
  }
  const std::vector<Entry>& entries = deployment_.entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].IsOfRange()) continue;
    // Of the programs for one range a machine takes one.
    std::vector<Entry> alike;
    std::size_t place = 0;
    for (std::size_t other = 0; other < entries.size(); ++other) {
      if (!(entries[other].inputs == entries[i].inputs)) continue;
      if (other == i) place = alike.size();
      alike.push_back(entries[other]);
    }
    if (JudgeEntries(alike, machine_, std::nullopt)[place].taken) Open(i).session->Reserve();
  }
}

DeploymentSession::OpenEntry& DeploymentSession::Open(std::size_t number) {
  const auto found = open_.find(number);
  if (found != open_.end()) return found->second;
  const Entry& entry = deployment_.entries[number];
  const std::string folder = EntryFolder(deployment_, entry);
  OpenEntry open{OpenSession(folder, folder, one_lane_), {}, {}, {}};
  for (std::size_t i = 0; i < open.session->input_names().size(); ++i) {
    const std::string& name = open.session->input_names()[i];
    const auto place = std::find(input_names_.begin(), input_names_.end(), name);
    const std::size_t which = place - input_names_.begin();
    if (place == input_names_.end() ||
        !(entry.inputs[which].type == open.session->InputType(i))) {
      Misstated(entry, "has another input '" + name + "' than deployment.json says");
    }
    open.inputs.push_back(which);
  }
  open.written.resize(open.inputs.size());
  const std::vector<std::string>& outputs = open.session->output_names();
  for (const std::string& name : output_names_) {
    const auto place = std::find(outputs.begin(), outputs.end(), name);
    if (place == outputs.end()) Misstated(entry, "has no output '" + name + "'");
    open.outputs.push_back(place - outputs.begin());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  // It may have been closed while this program was opened.
  RequireOpen();
  return open_.emplace(number, std::move(open)).first->second;
}

void DeploymentSession::RequireOpen() const {
  if (closed_) throw ffi::Error("BusyError", "this session is closed; make a new one", "");
}

Session& DeploymentSession::Ready() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    RequireOpen();
  }
  Shapes shapes;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].number == 0) Misuse("input '" + input_names_[i] + "' was never set");
    shapes.emplace_back(input_names_[i], values_[i].type.shape);
  }
  // Mostly it is the one of the last run.
  const std::size_t number = served_ && served_->shapes == shapes
                                 ? served_->entry
                                 : ChooseEntry(deployment_.entries, machine_, shapes);
  const Entry& entry = deployment_.entries[number];
  OpenEntry& open = Open(number);
  Served served{number, shapes, std::nullopt, &open};
  if (!Serves(entry, shapes)) {
    for (std::size_t i = 0; i < output_names_.size(); ++i) {
      const std::vector<std::int64_t> shape = served.OutputType(i).shape;
      if (shape.empty() || shape[0] != entry.batch) {
        Misstated(entry, "has an output '" + output_names_[i] + "' without rows");
      }
    }
    served.rows = shapes[0].second[0];
  }
  Write(&open, served.rows.has_value());
  served_ = std::move(served);
  return *open.session;
}

void DeploymentSession::Write(OpenEntry* open, bool more_rows) {
  for (std::size_t i = 0; i < open->inputs.size(); ++i) {
    const Value& value = values_[open->inputs[i]];
    if (open->written[i] == value.number) continue;
    BufferType whole = value.type;
    Block block = value.block;
    if (more_rows) {
      whole.shape = open->session->InputType(i).shape;
      // Of numbers that a model may be given: zeros could be divided by.
      const std::size_t bytes = value.type.Bytes(), row = bytes / value.type.shape[0];
      block = Allocate(whole.Bytes());
      std::memcpy(block.get(), value.block.get(), bytes);
      for (std::size_t at = bytes; at < whole.Bytes(); at += row) {
        std::memcpy(block.get() + at, value.block.get() + bytes - row, row);
      }
    }
    const ffi::Tensor rows = TensorIn(block, 0, whole);
    open->session->SetInput(i, rows);
    open->written[i] = value.number;
  }
}

}  // namespace tvm_ios
