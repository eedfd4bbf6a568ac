#include "scene_feeds.hpp"

#include <algorithm>
#include <cstring>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

constexpr std::size_t none = ~std::size_t{0};
constexpr auto position_ids = "position_ids";

/// The number of the port of a name; none where there is no such port.
std::size_t port_named(const std::vector<Port>& ports, std::string_view name) {
  const auto found = std::find_if(ports.begin(), ports.end(), [=](const Port& port) { return port.name == name; });
  return found == ports.end() ? none : static_cast<std::size_t>(found - ports.begin());
}

Status no_memory(const char* of) { return {ErrorKind::memory, "out of memory: " + std::string(of)}; }

/// Whether a token of a text pads it, by its place among all tokens of that text.
bool pads(const Texts& texts, std::int64_t row, std::int64_t place) noexcept { return place < texts.pads[row]; }

}  // namespace

SceneFeeds::SceneFeeds(const Session& decoder, const SceneGraphs& graphs) : decoder_(&decoder), graphs_(graphs) {
  const auto& inputs = decoder.inputs();
  const auto& features = graphs.tower->outputs();
  fed_.push_back({0, port_named(inputs, graphs.words->outputs()[0].name), {}});
  for (std::size_t output = 1; output < features.size(); ++output) {
    const auto input = port_named(inputs, features[output].name);
    if (input != none) fed_.push_back({output, input, {}});
  }
  types_ = port_named(inputs, "token_type_ids");
  if (graphs.positions == nullptr) return;
  positions_ = port_named(inputs, position_ids);
  const auto& counts = graphs.positions->outputs();
  position_rows_ = counts[port_named(counts, position_ids)].axes[0].size;
  const auto& of_tower = graphs.tower->inputs();
  for (std::size_t i = 0; i < of_tower.size(); ++i) {
    const auto same = port_named(graphs.positions->inputs(), of_tower[i].name);
    if (same != none) shared_.push_back({i, same});
  }
}

Status SceneFeeds::check_grids(Span<const View> pictures) const {
  const auto& ports = graphs_.tower->inputs();
  if (graphs_.grids < 0 || pictures.size() != ports.size()) return {};
  const auto at = static_cast<std::size_t>(graphs_.grids), of = static_cast<std::size_t>(graphs_.patches);
  const auto& grids = pictures[at];
  const auto& patches = pictures[of];
  const bool is_of_rows = grids.dtype == DType::int64 && grids.shape.size() == 2 && grids.shape[1] == 3;
  const bool is_there = grids.data != nullptr && grids.size == count(grids.shape);
  if (!is_of_rows || !is_there || patches.shape.empty()) return {};  // which the tower refuses
  const auto* grid = static_cast<const std::int64_t*>(grids.data);
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2;
  std::size_t sum = 0;
  for (std::int64_t i = 0; i < grids.shape[0]; ++i, grid += 3) {
    const bool is_size = *std::min_element(grid, grid + 3) >= 0;
    if (!is_size || grid[1] % graphs_.multiple != 0 || grid[2] % graphs_.multiple != 0) {
      return refused("'" + ports[at].name + "' has " + describe(Span<const std::int64_t>(grid, 3)) + " for " +
                     graphs_.picture + ' ' + std::to_string(i) + ": expected steps, rows and columns, the last two multiples of " +
                     std::to_string(graphs_.multiple));
    }
    const auto of_grid = product(product(unsigned_of(grid[0]), unsigned_of(grid[1])), unsigned_of(grid[2]));
    sum = std::min(most, sum + std::min(most, of_grid));
  }
  if (sum == unsigned_of(patches.shape[0])) return {};
  return refused("'" + ports[at].name + "' has grids of " + (sum == most ? "too many" : std::to_string(sum)) +
                 " patches in all, and '" + ports[of].name + "' has " + std::to_string(patches.shape[0]) + ": expected as many");
}

Status SceneFeeds::check_features(const std::vector<Array>& features) const {
  for (const auto& fed : fed_) {
    const auto& given = features[fed.output];
    const auto& port = decoder_->inputs()[fed.input];
    const bool fits = given.dtype == port.dtype && given.shape.size() == 2 && given.shape[1] == port.axes.back().size;
    if (!fits || given.shape[0] != features[0].shape[0]) {
      return refused("the tower gives " + describe(given.shape) + " for " + describe(port) + ": expected a row for each place");
    }
  }
  return {};
}

Status SceneFeeds::sense(Span<const View> pictures) {
  auto status = check_grids(pictures);
  if (!status.ok()) return status;
  Seen seen;
  status = graphs_.tower->try_run(pictures, seen.features);
  if (status.ok()) status = check_features(seen.features);
  if (!status.ok()) return status;
  for (const auto& shared : shared_) {
    const auto& given = pictures[shared.of_tower];
    const auto* bytes = static_cast<const std::byte*>(given.data);
    const std::vector<std::int64_t> shape(given.shape.begin(), given.shape.end());
    seen.grids.push_back({given.dtype, shape, {bytes, bytes + given.size * size_of(given.dtype)}});
  }
  seen_.push_back(std::move(seen));
  return {};
}

std::int64_t SceneFeeds::places() const noexcept {
  std::int64_t rows = 0;
  for (const auto& one : seen_) rows += one.features[0].shape[0];
  return rows;
}

Status SceneFeeds::check_places(Span<const std::int64_t> ids) const {
  const auto of_prompts = static_cast<std::int64_t>(std::count(ids.begin(), ids.end(), graphs_.place));
  const std::string picture = graphs_.picture;
  const auto given = "ids have " + counted(of_prompts, "place") + " of " + picture + "s (id " +
                     std::to_string(graphs_.place) + "), and ";
  if (seen_.empty()) {
    if (of_prompts == 0) return {};
    return refused(given + "no " + picture + " waits for a prompt: give the " + picture + "s first");
  }
  if (of_prompts == places()) return {};
  return refused(given + "the " + picture + "s fill " + std::to_string(places()) + ": give each " + picture +
                 " as many places as its tower makes rows");
}

Status SceneFeeds::check_rewind(std::int64_t batch, std::int64_t tokens) const {
  const auto* moves = kept_.data();
  const bool moved = graphs_.positions != nullptr && std::any_of(moves, moves + batch, [](std::int64_t by) { return by != 0; });
  if (!moved || tokens == 0 || tokens >= pictures_end_) return {};
  return refused("positions of the first " + counted(tokens, "token") + " alone are not kept, since " + graphs_.picture +
                 "s were read: rewind to 0, or to " + std::to_string(pictures_end_) +
                 " or more, or go on with a copy that was made there");
}

bool SceneFeeds::find_places(const Texts& texts, Span<const std::int64_t> ids) {
  if (!rows_.grow(ids.size())) return false;
  std::int64_t next = 0;
  for (std::int64_t at = 0; at < texts.batch * tokens_; ++at) {
    const auto row = at / tokens_;
    const bool is_place = ids[unsigned_of(at)] == graphs_.place && !pads(texts, row, texts.past + at % tokens_);
    rows_.data()[at] = is_place ? next++ : -1;
  }
  return true;
}

bool SceneFeeds::fill_mask(const Texts& texts) {
  const auto total = texts.past + tokens_;
  if (!mask_.grow(product(unsigned_of(texts.batch), unsigned_of(total)))) return false;
  for (std::int64_t at = 0; at < texts.batch * total; ++at) mask_.data()[at] = pads(texts, at / total, at % total) ? 0 : 1;
  return true;
}

Status SceneFeeds::count_positions(const Texts& texts, Span<const std::int64_t> ids) {
  const auto& ports = graphs_.positions->inputs();
  const auto of_row = unsigned_of(texts.batch * tokens_);
  if (!fill_mask(texts) || !counted_.grow(product(unsigned_of(position_rows_), of_row))) return no_memory("positions");
  const std::array<std::int64_t, 2> moves_shape{texts.batch, 1}, mask_shape{texts.batch, texts.past + tokens_};
  const std::array<std::int64_t, 2> of_ids{texts.batch, tokens_};
  const std::array<std::int64_t, 3> of_positions{position_rows_, texts.batch, tokens_};
  // pictures of several calls are those of one; of what nobody gave, as videos, there is none
  std::vector<Array> given(ports.size());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    given[i].dtype = ports[i].dtype;
    for (const auto& axis : ports[i].axes) given[i].shape.push_back(axis.name.empty() ? axis.size : 0);
    given[i].data.reserve(1);
  }
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    auto& all = given[shared_[i].of_positions];
    for (const auto& one : seen_) {
      all.shape[0] += one.grids[i].shape[0];
      all.data.insert(all.data.end(), one.grids[i].data.begin(), one.grids[i].data.end());
    }
  }
  std::vector<View> inputs, outputs(2);
  for (auto& one : given) inputs.push_back(view(one));
  inputs[port_named(ports, "input_ids")] = view(ids, of_ids);
  inputs[port_named(ports, "attention_mask")] = {DType::int64, mask_shape, mask_.data(), count(mask_shape)};
  inputs[port_named(ports, "past_rope_deltas")] = {DType::int64, moves_shape, moves_.data(), count(moves_shape)};
  Buffer<std::int64_t> moves;
  if (!moves.grow(unsigned_of(texts.batch))) return no_memory("positions");
  const auto& counts = graphs_.positions->outputs();
  outputs[port_named(counts, position_ids)] = {DType::int64, of_positions, counted_.data(), count(of_positions)};
  outputs[port_named(counts, "rope_deltas")] = {DType::int64, moves_shape, moves.data(), count(moves_shape)};
  auto status = graphs_.positions->try_run(inputs, outputs);
  // where ids and grids do not fit, it looks up rows that are not there
  if (status.kind() == ErrorKind::runtime || status.kind() == ErrorKind::out_of_range) {
    return refused("a row of places in the ids is not as long as its grid says: expected a grid for each " +
                   std::string(graphs_.picture) + ", in the order of their places");
  }
  if (!status.ok()) return status;
  moves_ = std::move(moves);
  has_positions_ = true;
  return {};
}

Status SceneFeeds::begin(const Texts& texts, Span<const std::int64_t> ids, std::int64_t tokens, bool is_prompt) {
  texts_ = texts;
  tokens_ = tokens;
  has_positions_ = false;
  has_places_ = is_prompt && !seen_.empty();
  if (!moves_.grow(unsigned_of(texts.batch))) return no_memory("positions");
  if (texts.past == 0) {
    std::fill_n(moves_.data(), texts.batch, 0);
  } else {
    std::copy_n(kept_.data(), texts.batch, moves_.data());
  }
  if (!has_places_) return {};
  if (!find_places(texts, ids)) return no_memory("places");
  return graphs_.positions == nullptr ? Status() : count_positions(texts, ids);
}

std::size_t SceneFeeds::row_bytes(const Fed& fed) const noexcept {
  const auto& port = decoder_->inputs()[fed.input];
  return unsigned_of(port.axes.back().size) * size_of(port.dtype);
}

const std::byte* SceneFeeds::row_of(std::size_t output, std::int64_t row) const noexcept {
  for (const auto& one : seen_) {
    const auto& features = one.features[output];
    const auto rows = std::max<std::size_t>(unsigned_of(features.shape[0]), 1);
    if (row < features.shape[0]) return features.data.data() + features.data.size() / rows * unsigned_of(row);
    row -= features.shape[0];
  }
  return nullptr;
}

Status SceneFeeds::put_in_places(Fed& fed, std::int64_t first, std::int64_t size, bool of_words) {
  const auto bytes = row_bytes(fed);
  if (!of_words) std::memset(fed.tokens.data(), 0, unsigned_of(texts_.batch * size) * bytes);
  for (std::int64_t at = 0; has_places_ && at < texts_.batch * size; ++at) {
    const auto row = rows_.data()[at / size * tokens_ + first + at % size];
    if (row < 0) continue;
    const auto* from = row_of(fed.output, row);
    if (from == nullptr) return refused("there are more places than rows");
    std::memcpy(fed.tokens.data() + unsigned_of(at) * bytes, from, bytes);
  }
  return {};
}

Status SceneFeeds::feed(Span<const std::int64_t> ids, std::int64_t first, std::int64_t size, std::vector<View>& inputs) {
  const auto tokens = texts_.batch * size;
  ids_shape_ = types_shape_ = {texts_.batch, size};
  fed_shape_ = {texts_.batch, size, decoder_->inputs()[fed_[0].input].axes.back().size};
  for (auto& fed : fed_) {
    if (!fed.tokens.grow(product(unsigned_of(tokens), row_bytes(fed)))) return no_memory("embeddings of a part of a prompt");
    inputs[fed.input] = {decoder_->inputs()[fed.input].dtype, fed_shape_, fed.tokens.data(), count(fed_shape_)};
  }
  const std::array<View, 1> given{view(ids, ids_shape_)}, embeddings{inputs[fed_[0].input]};
  auto status = graphs_.words->try_run(given, embeddings);
  for (std::size_t i = 0; status.ok() && i < fed_.size(); ++i) status = put_in_places(fed_[i], first, size, i == 0);
  if (!status.ok()) return status;
  if (types_ != none) {
    if (!types_of_.grow(unsigned_of(tokens))) return no_memory("types of tokens");
    for (std::int64_t at = 0; at < tokens; ++at) {
      const bool is_place = has_places_ && rows_.data()[at / size * tokens_ + first + at % size] >= 0;
      types_of_.data()[at] = (graphs_.types ? is_place : texts_.past > 0) ? 1 : 0;
    }
    inputs[types_] = {DType::int64, types_shape_, types_of_.data(), unsigned_of(tokens)};
  }
  if (!has_positions_) return {};
  if (!part_positions_.grow(product(unsigned_of(position_rows_), unsigned_of(tokens)))) return no_memory("positions");
  for (std::int64_t row = 0; row < position_rows_ * texts_.batch; ++row) {
    std::copy_n(counted_.data() + row * tokens_ + first, size, part_positions_.data() + row * size);
  }
  positions_shape_ = {position_rows_, texts_.batch, size};
  inputs[positions_] = {DType::int64, positions_shape_, part_positions_.data(), count(positions_shape_)};
  return {};
}

void SceneFeeds::keep(std::int64_t length) noexcept {
  std::swap(kept_, moves_);
  if (texts_.past == 0) pictures_end_ = 0;
  if (!has_places_) return;
  pictures_end_ = length;
  forget_pictures();
}

void SceneFeeds::copy(const SceneFeeds& other, std::int64_t batch) noexcept {
  std::copy_n(other.kept_.data(), batch, moves_.data());
  std::swap(kept_, moves_);
  pictures_end_ = other.pictures_end_;
}

}  // namespace POSENC_VERSION
}  // namespace posenc
