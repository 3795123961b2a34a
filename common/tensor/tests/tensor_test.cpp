// Tensors, views, the four number types, random fills, the door to Eigen.
#include "common/tensor/tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using fa::testing::contains;
using fa::testing::message_of;

namespace {

template <class T>
double to_double(T x) {
  return static_cast<double>(static_cast<accumulator_t<T>>(x));
}

// An unsigned integer as wide as T.
template <class T>
using bits_t = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

template <class T>
bits_t<T> bits_of(T x) {
  return Eigen::numext::bit_cast<bits_t<T>>(x);
}

template <class T>
T from_bits(std::uint64_t wide) {
  return Eigen::numext::bit_cast<T>(static_cast<bits_t<T>>(wide));
}

// The neighbour of a positive number that is `steps` further from zero.
template <class T>
T neighbour(T x, int steps) {
  return from_bits<T>(bits_of(x) + steps);
}

template <class A, class B, int Rank>
bool same_bits(View<A, Rank> a, View<B, Rank> b) {
  if (a.shape() != b.shape()) return false;
  bool same = true;
  for_each_index(a.shape(), [&](const Shape<Rank>& index) {
    same = same && bits_of(a[index]) == bits_of(b[index]);
  });
  return same;
}

// Elements 0, 1, 2, ...
template <class T, int Rank>
Tensor<T, Rank> counting(const Shape<Rank>& shape) {
  Tensor<T, Rank> result(shape);
  fill_with(result.view(), [](std::uint64_t i) { return double(i); });
  return result;
}

}  // namespace

TEST_CASE("sizes, elements and strides of a shape") {
  CHECK(to_string(Shape<4>{1, 12, 128, 32}) == "[1, 12, 128, 32]");
  CHECK(to_string(Shape<0>{}) == "[]");
  CHECK(element_count(Shape<4>{2, 3, 4, 5}) == 120);
  CHECK(element_count(Shape<0>{}) == 1);
  CHECK(element_count(Shape<3>{7, 0, 5}) == 0);
  const std::int64_t two_31 = std::int64_t{1} << 31;
  CHECK(element_count(Shape<2>{two_31, two_31}) == two_31 * two_31);
  CHECK(row_major_strides(Shape<4>{2, 3, 4, 5}) == Shape<4>{60, 20, 5, 1});
  CHECK(row_major_strides(Shape<3>{2, two_31, two_31}) == Shape<3>{two_31 * two_31, two_31, 1});
}

TEST_CASE("a negative size and too many elements are refused") {
  const std::int64_t two_32 = std::int64_t{1} << 32;
  // Not by way of a zero either: the strides would overflow.
  for (const Shape<3>& shape :
       {Shape<3>{2, -1, 3}, Shape<3>{0, 4, -1}, Shape<3>{two_32, two_32 / 2, 1},
        Shape<3>{0, two_32, two_32}, Shape<3>{two_32, two_32, 0}}) {
    const auto why = message_of<std::invalid_argument>([&] { Tensor<float, 3>{shape}; });
    CHECK(contains(why, to_string(shape)));
  }
}

TEST_CASE("a view writes through and a read-only view sees it") {
  Tensor<double, 2> tensor({2, 3});
  const View<double, 2> view = tensor;
  const View<const double, 2> reader = view;
  view(1, 1) = 4;
  CHECK(reader(1, 1) == 4);
  CHECK(reader[Shape<2>{1, 1}] == 4);
  CHECK(&reader(1, 1) == tensor.data() + 4);
  static_assert(!std::is_convertible_v<View<const double, 2>, View<double, 2>>,
                "a read-only view must not become writable");
}

TEST_CASE("narrow keeps a range of one dimension") {
  const Tensor<float, 3> tensor = counting<float, 3>({4, 5, 6});
  const View<const float, 3> part = tensor.view().narrow(1, 2, 4).narrow(0, 1, 4);
  CHECK(part.shape() == Shape<3>{3, 2, 6});
  for_each_index(part.shape(),
                 [&](const Shape<3>& i) { CHECK(part[i] == tensor(i[0] + 1, i[1] + 2, i[2])); });
  CHECK(tensor.view().narrow(2, 3, 3).count() == 0);
  CHECK(tensor.view().narrow(2, 0, 6).contiguous());
}

TEST_CASE("narrow and copy refuse shapes that do not fit") {
  Tensor<float, 2> tensor({4, 5}), turned({5, 4});
  const auto narrow = [&](int axis, std::int64_t begin, std::int64_t end) {
    return tensor.view().narrow(axis, begin, end);
  };
  CHECK_NOTHROW(narrow(0, 0, 4));
  for (const auto& [axis, begin, end] :
       {std::array{1, 2, 6}, {0, -1, 2}, {0, 3, 2}, {2, 0, 1}, {-1, 0, 1}}) {
    CHECK_THROWS_AS(narrow(axis, begin, end), std::invalid_argument);
  }
  CHECK_THROWS_AS(copy(tensor.view(), turned.view()), std::invalid_argument);
}

TEST_CASE("both layouts of heads are one view after swapping axes") {
  // The same numbers stored as [B, H, N, D] and as [B, N, H, D].
  const Shape<4> bhnd{2, 3, 4, 5}, bnhd{2, 4, 3, 5};
  const Tensor<float, 4> heads_first = counting<float, 4>(bhnd);
  Tensor<float, 4> length_first(bnhd);
  for_each_index(bhnd, [&](const Shape<4>& i) {
    length_first(i[0], i[2], i[1], i[3]) = heads_first(i[0], i[1], i[2], i[3]);
  });
  const View<const float, 4> seen = length_first.view().swap_axes(1, 2);
  CHECK(seen.shape() == bhnd);
  CHECK(seen.strides() == Shape<4>{60, 5, 15, 1});
  CHECK(same_bits(seen, heads_first.view()));
  CHECK(!same_bits(length_first.view().narrow(1, 0, 3).narrow(2, 0, 3),
                   heads_first.view().narrow(2, 0, 3)));
  // A head of it is a strided matrix.
  CHECK(seen.at(1).at(2).strides() == Shape<2>{15, 1});
  CHECK(seen.at(1).at(2)(3, 4) == heads_first(1, 2, 3, 4));
  CHECK(same_bits(seen.swap_axes(1, 2), length_first.view()));
}

TEST_CASE("contiguous means row-major without gaps") {
  const Tensor<float, 3> tensor({4, 5, 6});
  const View<const float, 3> all = tensor.view();
  CHECK(all.contiguous());
  CHECK(all.narrow(0, 1, 3).contiguous());
  CHECK(!all.narrow(1, 1, 3).contiguous());
  CHECK(!all.narrow(2, 0, 5).contiguous());
  CHECK(!all.swap_axes(0, 1).contiguous());
  // Dimensions of size 1 may sit anywhere.
  CHECK(all.narrow(1, 2, 3).narrow(0, 0, 1).swap_axes(0, 2).contiguous());
  CHECK(all.narrow(0, 2, 3).swap_axes(0, 1).contiguous());
  CHECK(all.narrow(1, 2, 3).narrow(0, 0, 1).contiguous());
}

TEST_CASE("every index is visited once and in row-major order") {
  std::vector<Shape<3>> seen;
  for_each_index(Shape<3>{2, 1, 3}, [&](const Shape<3>& index) { seen.push_back(index); });
  CHECK(seen ==
        std::vector<Shape<3>>{{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {1, 0, 0}, {1, 0, 1}, {1, 0, 2}});
  int calls = 0;
  for_each_index(Shape<2>{3, 0}, [&](const Shape<2>&) { ++calls; });
  CHECK(calls == 0);
  for_each_index(Shape<0>{}, [&](const Shape<0>&) { ++calls; });
  CHECK(calls == 1);
}

TEST_CASE("offsets go past what 32 bits hold") {
  // Address space only: no memory lies behind it, except two pages.
  const std::int64_t far = (std::int64_t{1} << 32) + 5;
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  const std::int64_t bytes = far / page * page + page;
  void* const space = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(space != MAP_FAILED);
  auto* const first = static_cast<std::uint8_t*>(space);
  const auto page_size = static_cast<std::size_t>(page);
  REQUIRE(mprotect(first, page_size, PROT_READ | PROT_WRITE) == 0);
  REQUIRE(mprotect(first + far / page * page, page_size, PROT_READ | PROT_WRITE) == 0);
  const View<std::uint8_t, 2> view(first, {2, 2}, {far, 1});
  view(0, 0) = 1;
  view(1, 0) = 2;
  CHECK(first[far] == 2);
  CHECK(view[Shape<2>{1, 0}] == 2);
  CHECK(view.at(1)(0) == 2);
  CHECK(view.narrow(0, 1, 2)(0, 0) == 2);
  CHECK(view.swap_axes(0, 1)(0, 1) == 2);
  CHECK(first[5] == 0);  // where 32 bits would have written
  CHECK(munmap(space, static_cast<std::size_t>(bytes)) == 0);
}

TEST_CASE_TEMPLATE("copies between all types and strides keep the numbers", From, double, float,
                   half, bfloat16) {
  // Small integers and quarters: exact in all four types.
  Tensor<double, 3> source({3, 4, 5});
  fill_with(source.view(), [](std::uint64_t i) { return 0.25 * double(i) - 6; });
  const View<const double, 3> transposed = source.view().swap_axes(0, 2);
  const Tensor<From, 3> from = converted<From>(transposed);
  CHECK(from.shape() == Shape<3>{5, 4, 3});
  const auto check_to = [&](auto to_tag) {
    using To = decltype(to_tag);
    Tensor<To, 3> to({3, 4, 5});
    copy(from.view(), to.view().swap_axes(0, 2));
    bool equal = true;
    for_each_index(to.shape(), [&](const Shape<3>& i) {
      equal = equal && to_double(to.view()[i]) == source.view()[i];
    });
    CHECK_MESSAGE(equal, FloatTraits<From>::name, " to ", FloatTraits<To>::name);
  };
  check_to(double{});
  check_to(float{});
  check_to(half{});
  check_to(bfloat16{});
}

TEST_CASE("float64 reaches 16 bits by way of float32") {
  // Between 1 and the next number, above the middle by less than float32 can tell: float32 rounds
  // it to the middle, and the tie goes to the even neighbour, which is 1.
  const auto through_float = [](auto tag) {
    using T = decltype(tag);
    Tensor<double, 1> x({1});
    x(0) = 1 + epsilon<T>() / 2 + epsilon<double>();
    CHECK(to_double(converted<T>(x)(0)) == 1.0);
    x(0) = 1 + epsilon<T>() / 2 + epsilon<float>();
    CHECK(to_double(converted<T>(x)(0)) == 1 + epsilon<T>());
  };
  through_float(half{});
  through_float(bfloat16{});
}

TEST_CASE_TEMPLATE("epsilon, the largest and the smallest normal number of a type", T, double,
                   float, half, bfloat16) {
  const T one = static_cast<T>(1.0f), infinity = static_cast<T>(INFINITY);
  CHECK(to_double(neighbour(one, 1)) == 1 + epsilon<T>());
  CHECK(1 - to_double(neighbour(one, -1)) == epsilon<T>() / 2);
  CHECK(to_double(neighbour(infinity, -1)) == largest<T>());
  const auto s = static_cast<T>(static_cast<accumulator_t<T>>(smallest_normal<T>()));
  const T twice = static_cast<T>(static_cast<accumulator_t<T>>(2 * smallest_normal<T>()));
  CHECK(to_double(s) == smallest_normal<T>());
  // Below it the spacing stays.
  const double step = smallest_normal<T>() * epsilon<T>();
  CHECK(to_double(neighbour(twice, 1)) - to_double(twice) == 2 * step);
  CHECK(to_double(s) - to_double(neighbour(s, -1)) == step);
  CHECK(to_double(from_bits<T>(1)) == step);
}

TEST_CASE("the mixing function gives SplitMix64's published numbers") {
  // The first outputs of SplitMix64 for seed 1234567, as implementations in many languages print
  // them (Rosetta Code, "Pseudo-random numbers/Splitmix64").
  const std::uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                    9817491932198370423u, 4593380528125082431u,
                                    16408922859458223821u};
  std::uint64_t state = 1234567;
  for (std::uint64_t wanted : expected) {
    state += 0x9e3779b97f4a7c15u;
    CHECK(mix_bits(state) == wanted);
  }
}

TEST_CASE_TEMPLATE("the same seed gives the same numbers in every type and stride", T, double,
                   float, half, bfloat16) {
  const Shape<3> shape{3, 4, 5};
  const auto reference = normal_tensor<double, 3>(shape, 42);
  const auto rounded = converted<T>(reference);
  CHECK(same_bits(normal_tensor<T, 3>(shape, 42).view(), rounded.view()));
  // Through a part of a view whose memory order is another.
  Tensor<T, 3> larger({5, 6, 3});
  const View<T, 3> part = larger.view().narrow(1, 1, 5).swap_axes(0, 2);
  fill_normal(part, 42);
  CHECK(same_bits(part, rounded.view()));
  CHECK(to_double(larger(0, 0, 0)) == 0);  // outside the view
  CHECK(to_double(larger(4, 5, 2)) == 0);
  const auto longer = normal_tensor<double, 1>({100}, 42);
  for (int i = 0; i < 60; ++i) CHECK(longer(i) == reference.data()[i]);
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  // Each bound is five standard deviations of what n independent draws give.
  const int n = 1 << 16;
  const auto a = normal_tensor<double, 1>({n}, 1);
  const auto b = normal_tensor<double, 1>({n}, 2);
  double mean = 0, square = 0, fourth = 0, next = 0, other = 0;
  for (int i = 0; i < n; ++i) {
    const double x = a(i);
    mean += x / n;
    square += x * x / n;
    fourth += x * x * x * x / n;
    next += x * a((i + 1) % n) / n;
    other += x * b(i) / n;
  }
  const double sigma = 1 / std::sqrt(double(n));
  CHECK(std::abs(mean) < 5 * sigma);
  CHECK(std::abs(square - 1) < 5 * sigma * std::sqrt(2.0));
  CHECK(std::abs(fourth - 3) < 5 * sigma * std::sqrt(96.0));
  CHECK(std::abs(next) < 5 * sigma);
  CHECK(std::abs(other) < 5 * sigma);
}

TEST_CASE_TEMPLATE("poison makes every element of a view NaN and no other", T, double, float, half,
                   bfloat16) {
  Tensor<T, 2> tensor({4, 5});
  poison(tensor.view().narrow(1, 1, 4));
  for_each_index(tensor.shape(), [&](const Shape<2>& i) {
    const bool inside = i[1] >= 1 && i[1] < 4;
    CHECK(std::isnan(to_double(tensor.view()[i])) == inside);
  });
}

TEST_CASE("Eigen sees the elements of a strided view without a copy") {
  Tensor<double, 3> tensor = counting<double, 3>({4, 3, 5});
  // Rows 15 apart, then columns 15 apart.
  const View<double, 2> rows = tensor.view().swap_axes(0, 1).at(2);
  auto matrix = as_matrix(rows);
  CHECK(matrix.rows() == 4);
  CHECK(matrix.cols() == 5);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 5; ++j) CHECK(matrix(i, j) == tensor(i, 2, j));
  }
  const auto transposed = as_matrix(View<const double, 2>(rows.swap_axes(0, 1)));
  CHECK(transposed == matrix.transpose());
  matrix(3, 4) = -1;
  CHECK(tensor(3, 2, 4) == -1);
}

TEST_CASE("a keep mask drops the share that it is given") {
  const auto mask = random_keep_mask<2>({100, 100}, 0.3, 7);
  const auto kept = std::count(mask.data(), mask.data() + mask.count(), 1);
  CHECK(kept + std::count(mask.data(), mask.data() + mask.count(), 0) == mask.count());
  // The standard deviation of the count is sqrt(10000 x 0.3 x 0.7) = 46.
  CHECK(std::abs(kept - 7000) < 5 * 46);
}
