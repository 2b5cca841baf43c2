#include "expressions.h"

#include <algorithm>

namespace tvm_ios {

namespace {

using Wide = __int128;
using WideBounds = std::pair<Wide, Wide>;

// Larger numbers are none in a file either.
constexpr std::int64_t kLimit = std::int64_t{1} << 62;

std::int64_t FloorDivide(std::int64_t number, std::int64_t divisor) {
  return number / divisor - (number % divisor < 0 ? 1 : 0);
}

std::int64_t Factor(const ffi::Any& value) {
  const auto number = value.as<bool>() ? std::nullopt : value.as<std::int64_t>();
  if (!number || *number <= -kLimit || *number >= kLimit) {
    throw Misfit("something else where a factor should be");
  }
  return *number;
}

WideBounds Checked(const WideBounds& bounds) {
  if (bounds.first <= -kLimit || bounds.second >= kLimit) {
    throw Misfit("an expression has more than 64 bits in the range of its symbols");
  }
  return bounds;
}

WideBounds Product(const WideBounds& one, const std::pair<std::int64_t, std::int64_t>& other) {
  const auto [least, most] =
      std::minmax({one.first * other.first, one.first * other.second, one.second * other.first,
                   one.second * other.second});
  return Checked({least, most});
}

}  // namespace

Expressions::Expressions(const JsonObject& file) {
  ReadSymbols(Field(file, "symbols"));
  for (const ffi::Any& row : List(Field(file, "expressions"))) ReadRow(List(row));
}

void Expressions::ReadSymbols(const ffi::Any& list) {
  for (const ffi::Any& item : List(list)) {
    const JsonArray fields = List(item);
    if (fields.size() != 4) {
      throw Misfit("a symbol of " + std::to_string(fields.size()) + " values");
    }
    const Symbol symbol{Text(fields[0]), Natural(fields[1]), Natural(fields[2])};
    const std::int64_t hint = Natural(fields[3]);
    if (symbol.least > hint || hint > symbol.most) {
      throw Misfit("symbol '" + symbol.name + "' is from " + std::to_string(symbol.least) + " to " +
                   std::to_string(symbol.most));
    }
    for (const Symbol& other : symbols_) {
      if (other.name == symbol.name) throw Misfit("two symbols of one name");
    }
    symbols_.push_back(symbol);
    bounds_.emplace_back(symbol.least, symbol.most);
  }
}

void Expressions::ReadRow(const JsonArray& fields) {
  const std::string kind = fields.empty() ? "" : Text(fields[0]);
  Row row{terms_.size(), terms_.size(), 0, 0};
  if (kind == "floor" && fields.size() == 3) {
    row.of = ReadValue(fields[1]);
    row.divisor = Natural(fields[2]);
    if (row.divisor == 0) throw Misfit("an expression divides by 0");
  } else if (kind == "sum") {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const JsonArray parts = List(fields[i]);
      if (parts.empty()) throw Misfit("a term without a factor");
      Term term{Factor(parts[0]), atoms_.size(), atoms_.size()};
      for (std::size_t k = 1; k < parts.size(); ++k) atoms_.push_back(ReadValue(parts[k]));
      term.last_atom = atoms_.size();
      terms_.push_back(term);
    }
    row.last_term = terms_.size();
  } else {
    throw Misfit("there is no expression of kind '" + kind + "' and " +
                 std::to_string(fields.size()) + " values");
  }
  rows_.push_back(row);
  bounds_.push_back(BoundsOf(row));
}

std::pair<std::int64_t, std::int64_t> Expressions::BoundsOf(const Row& row) const {
  if (row.divisor != 0) {
    const auto [least, most] = bounds_[row.of];
    return {FloorDivide(least, row.divisor), FloorDivide(most, row.divisor)};
  }
  WideBounds sum{0, 0};
  for (std::size_t t = row.first_term; t < row.last_term; ++t) {
    WideBounds product{terms_[t].factor, terms_[t].factor};
    for (std::size_t a = terms_[t].first_atom; a < terms_[t].last_atom; ++a) {
      product = Product(product, bounds_[atoms_[a]]);
    }
    sum = Checked({sum.first + product.first, sum.second + product.second});
  }
  return {static_cast<std::int64_t>(sum.first), static_cast<std::int64_t>(sum.second)};
}

// Values that are known by now: an expression is made of those before it.
std::size_t Expressions::ReadValue(const ffi::Any& reference) const {
  const std::string text = Text(reference);
  const bool symbol = !text.empty() && text[0] == 's';
  const std::size_t first = symbol ? 0 : symbols_.size();
  const std::size_t known = symbol ? symbols_.size() : rows_.size();
  std::size_t number = 0;
  bool digits = text.size() > 1 && text.size() < 12 && (symbol || text[0] == 'e');
  for (std::size_t i = 1; digits && i < text.size(); ++i) {
    digits = text[i] >= '0' && text[i] <= '9' && !(i == 1 && text[i] == '0' && text.size() > 2);
    number = number * 10 + static_cast<std::size_t>(text[i] - '0');
  }
  if (!digits || number >= known) {
    throw Misfit("there is no expression '" + text.substr(0, 40) + "'");
  }
  return first + number;
}

std::int64_t Expressions::Read(const ffi::Any& value) const {
  if (!value.as<ffi::String>()) return Natural(value);
  return ~static_cast<std::int64_t>(ReadValue(value));
}

std::vector<std::int64_t> Expressions::ReadAll(const ffi::Any& list) const {
  std::vector<std::int64_t> references;
  for (const ffi::Any& item : List(list)) references.push_back(Read(item));
  return references;
}

std::int64_t Expressions::Named(const std::string& symbol) const {
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i].name == symbol) return ~static_cast<std::int64_t>(i);
  }
  throw Misfit("there is no symbol '" + symbol + "'");
}

std::vector<std::int64_t> Expressions::Evaluate(const std::vector<std::int64_t>& symbols) const {
  std::vector<std::int64_t> values;
  values.reserve(size());
  values = symbols;
  for (const Row& row : rows_) {
    if (row.divisor != 0) {
      values.push_back(FloorDivide(values[row.of], row.divisor));
      continue;
    }
    std::int64_t sum = 0;
    for (std::size_t t = row.first_term; t < row.last_term; ++t) {
      std::int64_t product = terms_[t].factor;
      for (std::size_t a = terms_[t].first_atom; a < terms_[t].last_atom; ++a) {
        product *= values[atoms_[a]];
      }
      sum += product;
    }
    values.push_back(sum);
  }
  return values;
}

std::pair<std::int64_t, std::int64_t> Expressions::Bounds(std::int64_t reference) const {
  return IsOpen(reference) ? bounds_[~reference] : std::pair{reference, reference};
}

std::optional<Expressions::Linear> Expressions::AsLinear(std::int64_t reference) const {
  if (!IsOpen(reference)) return std::nullopt;
  const std::size_t value = ~reference;
  if (value < symbols_.size()) return Linear{value, 1, 0};
  const Row& row = rows_[value - symbols_.size()];
  if (row.divisor != 0) return std::nullopt;
  Linear linear{symbols_.size(), 0, 0};
  for (std::size_t t = row.first_term; t < row.last_term; ++t) {
    const Term& term = terms_[t];
    const std::size_t atoms = term.last_atom - term.first_atom;
    if (atoms == 0) {
      linear.offset += term.factor;
    } else if (atoms == 1 && atoms_[term.first_atom] < symbols_.size() && linear.step == 0 &&
               term.factor > 0) {
      linear.symbol = atoms_[term.first_atom];
      linear.step = term.factor;
    } else {
      return std::nullopt;
    }
  }
  return linear.step == 0 ? std::nullopt : std::optional(linear);
}

}  // namespace tvm_ios
