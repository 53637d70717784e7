// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The safetensors format: files of literal bytes are read, what is written is compared with literal bytes,
/// and each thing that can be wrong with a header is an error that says so.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/weights/load_weights.hpp>
#include <shardwise/weights/save_weights.hpp>

#include <cmath>
#include <cstring>
#include <numeric>

#include "scratch_folder.hpp"

namespace shardwise::testing::safetensors {
namespace sw = shardwise;
using namespace std::string_literals;
using sw::dp;
using sw::Index;
using sw::Partial;
using sw::Replicate;
using sw::Shard;
using sw::StoredType;
using sw::tp;

namespace {

using Line = sw::Mesh<tp>;
using Grid = sw::Mesh<dp, tp>;
using Matrix = sw::RowMajorMatrix<float>;

Line line() { return Line(sw::world(), {sw::any}); }
Grid grid() { return Grid(sw::world(), {sw::any, sw::world().size() % 2 == 0 ? 2 : 1}); }

Matrix counting(Index rows, Index columns) {
  Matrix m(rows, columns);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(i) - 3.5F;
  return m;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A file with one tensor "x".
std::string one_tensor(const std::string& type, const std::string& shape, const std::string& data) {
  return safetensors_bytes(R"({"x":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
                               std::to_string(data.size()) + "]}}",
                           data);
}

/// All elements of "x", as `T`s.
template <class T>
std::vector<T> read_all(const std::filesystem::path& path) {
  const sw::Weights file(path);
  const auto& shape = file.tensor("x").shape;
  const Index count = std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
  std::vector<T> values(static_cast<std::size_t>(count));
  REQUIRE(shape.size() == 1);
  file.read_block("x", sw::View<T, 1>{values.data(), {count}, {0}, {count}});
  return values;
}

}  // namespace

TEST_CASE("a file of literal bytes") {
  const ScratchFolder folder;
  // 115 bytes of header, so that no element is aligned; 1.0, -2.0, 0.5, 256.0, then the integers 7 and -1.
  const std::string header =
      R"({"ids":{"shape":[2],"data_offsets":[16,32],"dtype":"I64"},"__metadata__":{"format":"pt"},)"
      R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const std::string data = "\x00\x00\x80\x3f"s + "\x00\x00\x00\xc0"s + "\x00\x00\x00\x3f"s +
                           "\x00\x00\x80\x43"s + "\x07\x00\x00\x00\x00\x00\x00\x00"s +
                           "\xff\xff\xff\xff\xff\xff\xff\xff"s;
  const auto path = folder.file("literal.safetensors", safetensors_bytes(header + "  ", data));

  const sw::Weights file(path);
  REQUIRE(file.files()[0].tensors().size() == 2);
  CHECK(file.files()[0].tensors()[0].name == "w");
  CHECK(file.files()[0].tensors()[1].name == "ids");
  CHECK(file.tensor("w").type == StoredType::f32);
  CHECK(file.tensor("w").shape == std::vector<Index>{2, 2});
  CHECK(file.tensor("w").offset == static_cast<Index>(8 + header.size() + 2));
  CHECK(file.files()[0].metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  CHECK(file.contains("ids"));
  CHECK(!file.contains("w "));
  CHECK(!file.contains("__metadata__"));

  Matrix expected(2, 2);
  expected << 1, -2, 0.5, 256;
  CHECK(sw::full_tensor(sw::read_tensor<float, 2, Shard<0>>(line(), path, "w")) == expected);
  CHECK(sw::full_tensor(sw::read_tensor<float, 2, Shard<1>>(line(), path, "w")) == expected);
  CHECK(sw::full_tensor(sw::read_tensor<float, 2, Replicate, Shard<1>>(grid(), path, "w")) == expected);
  CHECK(sw::full_tensor(sw::read_tensor<double, 2, Shard<0>, Shard<0>>(grid(), path, "w")) ==
        expected.cast<double>());
  const auto narrow = sw::full_tensor(sw::read_tensor<std::int32_t, 1, Replicate>(line(), path, "ids"));
  CHECK(narrow[0] == 7);
  CHECK(narrow[1] == -1);
  const auto wide = sw::full_tensor(sw::read_tensor<std::int64_t, 1, Shard<0>>(line(), path, "ids"));
  CHECK(wide[0] == 7);
  CHECK(wide[1] == -1);
}

TEST_CASE("what is written, byte by byte") {
  const ScratchFolder folder;
  const Line mesh = line();
  const auto w = sw::distribute<Shard<1>>(mesh, [] {
    Matrix m(2, 2);
    m << 1, -2, 0.5, 256;
    return m;
  }());
  const std::vector<std::int64_t> numbers{7, -1};
  const auto ids = sw::distribute<Replicate>(mesh, sw::Shape<1>{2}, std::span<const std::int64_t>(numbers));
  const auto path = folder / "written.safetensors";
  // The widest type first, then by name; the text is padded to a multiple of 8.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"z":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
      R"("a":{"dtype":"BF16","shape":[2,2],"data_offsets":[16,24]},)"
      R"("b":{"dtype":"BF16","shape":[2,2],"data_offsets":[24,32]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string halves = "\x80\x3f\x00\xc0\x00\x3f\x80\x43"s;
  sw::write_tensors(path, {{"b", w}, {"z", ids}, {"a", w}}, {.type = StoredType::bf16});
  CHECK(bytes_of_file(path) ==
        safetensors_bytes(padded, "\x07\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"s + halves + halves));
  sw::write_tensors(path, {{"x", w}}, {.type = StoredType::f16, .metadata = {}});
  CHECK(has(bytes_of_file(path), "\x00\x3c\x00\xc0\x00\x38\x00\x5c"s));
  CHECK(bytes_of_file(path).substr(0, 19) == "\x38\0\0\0\0\0\0\0{\"x\":{\"dtyp"s);
  sw::write_tensors(path, {{"x", w}}, {.metadata = {}});
  CHECK(has(bytes_of_file(path), "\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f\x00\x00\x80\x43"s));
}

TEST_CASE("every layout, uneven and empty blocks, two axes") {
  const ScratchFolder folder;
  const Matrix whole = counting(13, 7);
  const auto path = folder.file(
      "x.safetensors", one_tensor("F32", "[13,7]", raw(std::vector<float>(whole.data(), whole.data() + 91))));
  const auto same = [&](const auto& x, std::string_view name) {
    CHECK(sw::full_tensor(x) == whole);
    const auto again = folder / name;
    const Index mine = sw::write_tensors(again, {{"x", x}}, {.metadata = {}});
    Index all = 0;
    sw::world().all_reduce(&mine, &all, 1, sw::data_type<Index>, sw::ReduceOp::sum);
    CHECK(all == 91 * 4);  // replicated blocks are written once
    CHECK(bytes_of_file(again).substr(bytes_of_file(again).size() - 91 * 4) ==
          raw(std::vector<float>(whole.data(), whole.data() + 91)));
    CHECK(sw::full_tensor(sw::read_tensor<float, 2, Shard<1>>(line(), again, "x")) == whole);
  };
  same(sw::read_tensor<float, 2, Replicate>(line(), path, "x"), "a.safetensors");
  same(sw::read_tensor<float, 2, Shard<0>>(line(), path, "x"), "b.safetensors");
  same(sw::read_tensor<float, 2, Shard<1>>(line(), path, "x"), "c.safetensors");
  same(sw::read_tensor<float, 2, Shard<0>, Shard<1>>(grid(), path, "x"), "d.safetensors");
  same(sw::read_tensor<float, 2, Shard<1>, Shard<1>>(grid(), path, "x"), "e.safetensors");
  same(sw::read_tensor<float, 2, Shard<1>, Replicate>(grid(), path, "x"), "f.safetensors");
  same(sw::read_tensor<float, 2, sw::Reduced, Shard<0>>(grid(), path, "x"), "g.safetensors");

  const auto small =
      folder.file("small.safetensors", one_tensor("F32", "[2,3]", raw(std::vector<float>(6, 1.5F))));
  CHECK(sw::full_tensor(sw::read_tensor<float, 2, Shard<0>>(line(), small, "x")) ==
        Matrix::Constant(2, 3, 1.5F));
  const auto none = folder.file("none.safetensors", one_tensor("F32", "[0,3]", ""));
  const auto empty = sw::read_tensor<float, 2, Shard<0>>(line(), none, "x");
  CHECK(empty.shape() == sw::Shape<2>{0, 3});
  sw::write_tensors(folder / "empty.safetensors", {{"x", empty}}, {.metadata = {}});
  CHECK(bytes_of_file(folder / "empty.safetensors").substr(8) ==
        R"({"x":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}})");
  const auto scalar =
      folder.file("scalar.safetensors", one_tensor("F64", "[]", raw(std::vector<double>{2.25})));
  CHECK(sw::item(sw::read_tensor<float, 0, Replicate>(line(), scalar, "x")) == 2.25F);
}

TEST_CASE("floating-point numbers are converted, and rounded once, to nearest even") {
  const ScratchFolder folder;
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  // Independent of any conversion routine: sign, exponent, fraction.
  const auto value_of = [](unsigned bits, int fraction_bits, int bias) {
    const int exponent_bits = 15 - fraction_bits;
    const double fraction = bits & ((1u << fraction_bits) - 1);
    const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  };
  const auto halves = folder.file("f16", one_tensor("F16", "[65536]", raw(all)));
  const auto brains = folder.file("bf16", one_tensor("BF16", "[65536]", raw(all)));
  const auto f = read_all<float>(halves);
  const auto d = read_all<double>(halves);
  const auto b = read_all<float>(brains);
  int wrong = 0;
  for (unsigned i = 0; i < 65536; ++i) {
    const double half = value_of(i, 10, 15), brain = value_of(i, 7, 127);
    const auto equal = [](double x, double y) { return std::isnan(x) ? std::isnan(y) : x == y; };
    wrong += !equal(half, f[i]) + !equal(half, d[i]) + !equal(brain, b[i]);
  }
  CHECK(wrong == 0);

  // Ties to even; the last two would tie if they were rounded to float first.
  const auto floats = folder.file(
      "f32", one_tensor("F32", "[4]",
                        raw(std::vector<std::uint32_t>{0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff})));
  const auto rounded = read_all<Eigen::bfloat16>(floats);
  CHECK(raw(rounded) == raw(std::vector<std::uint16_t>{0x3f80, 0x3f82, 0x3f81, 0x7f80}));
  const std::vector<double> near{1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 1 + 3 * 0x1p-8 - 0x1p-40,
                                 -0x1p-140};
  const auto doubles = folder.file("f64", one_tensor("F64", "[4]", raw(near)));
  CHECK(raw(read_all<Eigen::bfloat16>(doubles)) ==
        raw(std::vector<std::uint16_t>{0x3f81, 0x3f80, 0x3f81, 0x8000}));
  CHECK(read_all<float>(doubles)[0] == 1 + 0x1p-8F);

  // And when writing.
  const std::vector<double> edges{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, 65504, 65520, 0x1p-25, 0x1.8p-24};
  const auto x = sw::distribute<Shard<0>>(line(), sw::Shape<1>{6}, std::span<const double>(edges));
  sw::write_tensors(folder / "half.safetensors", {{"x", x}}, {.type = StoredType::f16});
  const std::string bytes = bytes_of_file(folder / "half.safetensors");
  CHECK(bytes.substr(bytes.size() - 12) ==
        raw(std::vector<std::uint16_t>{0x3c01, 0x3c00, 0x7bff, 0x7c00, 0x0000, 0x0002}));
  for (const StoredType type : {StoredType::f64, StoredType::f32, StoredType::bf16, StoredType::f16}) {
    const auto exact = sw::distribute<Shard<0>>(line(), counting(5, 3));
    sw::write_tensors(folder / "exact.safetensors", {{"x", exact}}, {.type = type});
    CHECK(sw::Weights(folder / "exact.safetensors").tensor("x").type == type);
    CHECK(sw::full_tensor(sw::read_tensor<float, 2, Shard<1>>(line(), folder / "exact.safetensors", "x")) ==
          counting(5, 3));
    sw::world().barrier();
  }
}

TEST_CASE("integers") {
  const ScratchFolder folder;
  CHECK(read_all<std::int32_t>(folder.file("i8", one_tensor("I8", "[2]", "\x7f\x80"))) ==
        std::vector{127, -128});
  CHECK(read_all<std::int32_t>(folder.file("u8", one_tensor("U8", "[2]", "\x7f\x80"))) ==
        std::vector{127, 128});
  CHECK(read_all<std::int64_t>(folder.file("b", one_tensor("BOOL", "[2]", "\x01\x00"s))) ==
        std::vector<std::int64_t>{1, 0});
  CHECK(read_all<std::int32_t>(folder.file("i16", one_tensor("I16", "[2]", "\xff\xff\x01\x02"))) ==
        std::vector{-1, 513});
  CHECK(read_all<std::int32_t>(folder.file("u16", one_tensor("U16", "[2]", "\xff\xff\x01\x02"))) ==
        std::vector{65535, 513});
  CHECK(read_all<std::int64_t>(folder.file("i32", one_tensor("I32", "[1]", "\xfe\xff\xff\xff"))) ==
        std::vector<std::int64_t>{-2});
  const auto large =
      folder.file("i64", one_tensor("I64", "[2]", raw(std::vector<std::int64_t>{1, 3'000'000'000})));
  CHECK(error_of([&] { read_all<std::int32_t>(large); }) ==
        large.string() + ": tensor \"x\": the value 3000000000 does not fit an integer of 32 bits");
  CHECK(error_of([&] {
          sw::read_tensor<std::int32_t, 1, Replicate>(line(), large, "x");
        }).find("read_tensor: " + large.string() + ": tensor \"x\": the value 3000000000") == 0);
  CHECK(error_of([&] { read_all<float>(large); }) ==
        large.string() + ": tensor \"x\": expected a type that can be read as F32, found I64");
  const auto floats = folder.file("f32", one_tensor("F32", "[2]", std::string(8, '\0')));
  CHECK(has(error_of([&] { read_all<std::int64_t>(floats); }),
            "expected a type that can be read as I64, found F32"));
  for (const std::string type : {"I16", "I8", "U8", "BOOL", "U16", "F8_E4M3", "F8_E5M2"}) {
    const auto path =
        folder.file("other", one_tensor(type, "[2]", std::string(type.find("16") == 1 ? 4 : 2, '\0')));
    CHECK(has(error_of([&] { read_all<float>(path); }), "found " + type));
    sw::world().barrier();
  }
}

TEST_CASE("adjacent dimensions may be merged, on either side") {
  const ScratchFolder folder;
  std::vector<float> values(6 * 5 * 4);
  std::iota(values.begin(), values.end(), 1.0F);
  const auto path = folder.file("x.safetensors", one_tensor("F32", "[30,4]", raw(values)));
  const sw::Weights file(path);
  const Line mesh = line();
  // Five heads of six features, cut by heads.
  auto heads = sw::empty<float, Shard<0>>(mesh, {5, 6, 4});
  file.read_block("x", heads.writable());
  const auto all = sw::full_tensor(heads);
  CHECK(std::equal(values.begin(), values.end(), all.data()));
  auto flat = sw::empty<float, Shard<0>>(mesh, {120});
  file.read_block("x", flat.writable());
  CHECK(std::equal(values.begin(), values.end(), sw::full_tensor(flat).data()));
  const auto refused = [&](auto shape) {
    auto x = sw::empty<float, Replicate>(mesh, shape);
    return error_of([&] { file.read_block("x", x.writable()); });
  };
  const std::string begin = path.string() + ": tensor \"x\": expected the shape ";
  CHECK(refused(sw::Shape<2>{4, 30}) == begin + "[4 x 30], found [30 x 4]");
  CHECK(refused(sw::Shape<3>{5, 12, 2}) == begin + "[5 x 12 x 2], found [30 x 4]");
  CHECK(refused(sw::Shape<2>{30, 5}) == begin + "[30 x 5], found [30 x 4]");
  CHECK(refused(sw::Shape<2>{60, 2}) == begin + "[60 x 2], found [30 x 4]");
  CHECK(refused(sw::Shape<0>{}) == begin + "[], found [30 x 4]");
  CHECK(refused(sw::Shape<3>{30, 1, 4}) == "no error");
  CHECK(refused(sw::Shape<4>{1, 30, 4, 1}) == "no error");
  CHECK(has(error_of([&] { sw::read_tensor<float, 3, Replicate>(mesh, path, "x"); }),
            "expected 3 dimensions, found the shape [30 x 4]"));
}

TEST_CASE("a tensor of a type that is not known is refused where it is used, and no other") {
  const ScratchFolder folder;
  const Line mesh = line();
  for (const std::string type : {"F8_E8M0", "F4", "C64", "F31", ""}) {
    INFO(type);
    const std::string header = R"({"__metadata__":null,"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                               R"("x":{"dtype":")" +
                               type + R"(","shape":[3,2],"data_offsets":[2,5]}})";
    const auto path = folder.file("mixed.safetensors", safetensors_bytes(header, "\1\2\3\4\5"));
    const sw::Weights file(path);
    CHECK(file.files()[0].metadata().empty());
    CHECK(file.tensor("x").bytes == 3);
    CHECK(file.tensor("x").type_name() == type);
    CHECK(sw::full_tensor(sw::read_tensor<std::uint8_t, 1, Replicate>(mesh, path, "a")).data()[1] == 2);
    CHECK(has(error_of([&] { sw::read_tensor<float, 2, Replicate>(mesh, path, "x"); }),
              path.string() + ": tensor \"x\": expected a type that can be read as F32, found " + type));
    CHECK(has(error_of([&] { sw::read_tensor<std::uint8_t, 2, Replicate>(mesh, path, "x"); }),
              "as U8, found " + type));
    sw::world().barrier();
  }
}

TEST_CASE("everything that can be wrong with a header") {
  const ScratchFolder folder;
  const auto refused = [&](const std::string& bytes) {
    const auto path = folder.file("bad.safetensors", bytes);
    const std::string error = error_of([&] { sw::Weights file(path); });
    sw::world().barrier();
    REQUIRE(error.find(path.string() + ": ") == 0);
    return error.substr(path.string().size() + 2);
  };
  const auto with = [](const std::string& header, std::size_t data) {
    return safetensors_bytes(header, std::string(data, '\0'));
  };
  const auto x = [&](const std::string& fields, std::size_t data) {
    return with("{\"x\":{" + fields + "}}", data);
  };

  // The length
  CHECK(refused("") == "0 bytes are not a safetensors file, which has at least 8");
  CHECK(refused("\x02\0\0"s) == "3 bytes are not a safetensors file, which has at least 8");
  CHECK(refused("\x02\0\0\0\0\0\0\0{"s) ==
        "a header of 2 bytes, but the file has 1 after its length: is it truncated?");
  CHECK(refused("\x01\xe1\xf5\x05\0\0\0\0{}"s).find("a header of 100000001 bytes, where at most 100000000") ==
        0);
  CHECK(refused("\xff\xff\xff\xff\xff\xff\xff\xff{}"s).find("a header of 18446744073709551615 bytes") == 0);
  // The text
  CHECK(refused(with("", 0)) == "the header does not begin with {");
  CHECK(refused(with("[]", 0)) == "the header does not begin with {");
  CHECK(refused(with("{\"x\":", 0)).find("not JSON: parse error at line 1, column 6") == 0);
  CHECK(refused(with("{} {}", 0)).find("not JSON: parse error at line 1, column 4") == 0);
  CHECK(refused(with("{\"\xff\":1}", 0)).find("not JSON: parse error") == 0);
  const std::string entry = R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(refused(with("{" + entry + "," + entry + "}", 1)) == "the key \"x\" is there twice in one object");
  CHECK(refused(x(R"("dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1])", 1)) ==
        "the key \"dtype\" is there twice in one object");
  CHECK(refused(with(R"({"__metadata__":{"a":1}})", 0)) == "__metadata__, \"a\": it is 1, expected a string");
  CHECK(refused(with(R"({"__metadata__":[]})", 0)) == "__metadata__: it is [], expected an object");
  // A tensor's fields
  CHECK(refused(with(R"({"x":3})", 0)) == "tensor \"x\": it is 3, expected an object");
  CHECK(refused(x(R"("dtype":"U8","shape":[1])", 1)) ==
        "tensor \"x\".data_offsets: it is missing, expected a list of 2");
  CHECK(refused(x(R"("shape":[1],"data_offsets":[0,1])", 1)) ==
        "tensor \"x\".dtype: it is missing, expected a string");
  CHECK(refused(x(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"a":1)", 1)) ==
        "tensor \"x\": the key \"a\" is not supported");
  CHECK(refused(x(R"("dtype":"F31","shape":[4294967296,4294967296],"data_offsets":[0,4])", 4)) ==
        "tensor \"x\": F31 [4294967296 x 4294967296] has more bytes than 2^63 - 1");
  CHECK(refused(x(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])", 3)) ==
        "tensor \"x\": ends at byte 4 of the data, but the file has 3: is it truncated?");
  CHECK(refused(x(R"("dtype":7,"shape":[1],"data_offsets":[0,4])", 4)) ==
        "tensor \"x\".dtype: it is 7, expected a string");
  const std::string range = ", expected an integer, 0 or more";
  CHECK(refused(x(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", 1)) ==
        "tensor \"x\".shape[0]: it is -1" + range);
  CHECK(refused(x(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])", 1)) ==
        "tensor \"x\".shape[0]: it is 1.5" + range);
  CHECK(refused(x(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1])", 1)) ==
        "tensor \"x\".shape[0]: it is 9223372036854775808" + range);
  CHECK(refused(x(R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])", 1)) ==
        "tensor \"x\".shape[0]: it is \"1\"" + range);
  CHECK(refused(x(R"("dtype":"U8","shape":1,"data_offsets":[0,1])", 1)) ==
        "tensor \"x\".shape: it is 1, expected a list of integers");
  CHECK(refused(x(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0)) ==
        "tensor \"x\": F32 [4294967296 x 4294967296] has more bytes than 2^63 - 1");
  CHECK(refused(x(R"("dtype":"U8","shape":[1],"data_offsets":[0])", 1)) ==
        "tensor \"x\".data_offsets: it is [0], expected a list of 2");
  CHECK(refused(x(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", 1)) ==
        "tensor \"x\": data_offsets [1, 0] end before they begin");
  CHECK(refused(x(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,20])", 20)) ==
        "tensor \"x\": F32 [2 x 3] has 24 bytes, but data_offsets [0, 20] hold 20");
  // Their places
  CHECK(refused(x(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7)) ==
        "tensor \"x\": ends at byte 8 of the data, but the file has 7: is it truncated?");
  CHECK(refused(x(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 9)) ==
        "the tensors end at byte 8 of the data, but the file has 9");
  CHECK(refused(x(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", 12)) ==
        "tensor \"x\": begins at byte 4 of the data, expected 0: no tensor has the bytes between");
  const std::string y =
      R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":)";
  CHECK(refused(with(y + "[3,7]}}", 7)) ==
        "tensor \"y\": overlaps tensor \"x\": it begins at byte 3 of the data, that one ends at 4");
  CHECK(refused(with(y + "[5,9]}}", 9)) ==
        "tensor \"y\": begins at byte 5 of the data, expected 4: no tensor has the bytes between");
  CHECK(refused(with("{}", 1)) == "the tensors end at byte 0 of the data, but the file has 1");

  CHECK(error_of([&] { sw::Weights file(folder / "none"); }) ==
        (folder / "none").string() + ": no such file or folder");
  CHECK(error_of([&] { sw::Weights file(folder.path()); }) ==
        folder.path().string() + ": neither model.safetensors nor model.safetensors.index.json is there");
  shardwise::world().barrier();  // until all ranks have looked
  folder.file("pytorch_model.bin", "");
  CHECK(
      error_of([&] { sw::Weights file(folder.path()); }) ==
      folder.path().string() +
          ": neither model.safetensors nor model.safetensors.index.json is there, and a pytorch_model.bin is "
          "not read");
  CHECK(sw::Weights(folder.file("empty", with("{}", 0))).files()[0].tensors().empty());
  CHECK(sw::Weights(folder.file("good", with(y + "[4,8]}}", 8))).files()[0].tensors().size() == 2);
  CHECK(error_of([&] { sw::Weights(folder / "good").tensor("z"); }) ==
        (folder / "good").string() + ": tensor \"z\": there is no such tensor");
}

TEST_CASE("each rank reads its own bytes, and no others come from the device") {
  const ScratchFolder folder;
  constexpr Index rows = 64, columns = 16384;  // a row is 16 pages of 4096 bytes
  const Line mesh = line();
  const auto path = folder / "large.safetensors";
  const auto x = sw::randn<float, Shard<0>>(mesh, {rows, columns}, 1);
  sw::write_tensors(path, {{"x", x}});
  auto blocks = sw::empty<float, Shard<1>>(mesh, {rows, columns});
  Index mine = 0;
  const auto read = [&] {
    const sw::Weights file(path);
    file.read_block("x", blocks.writable());
    mine = file.bytes_read();
  };

  // Which of the file's pages are in memory: none, once the system has been told to drop them, if it obeys.
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(path));
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const auto resident = [&] {
    std::vector<unsigned char> pages((size + 4095) / 4096);
    ::mincore(memory, size, pages.data());
    return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  };
  if (mesh.rank() == 0) {
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    const auto before = resident();
    read();
    const auto after = resident();
    // The header's page; and a block's run of a row touches one page more than its bytes fill, or two.
    const auto most = 1 + rows * (columns * 4 / mesh.size() / 4096 + 2);
    if (before == 0) CHECK(after <= most);
    MESSAGE("pages of " << size / 4096 << " in memory: " << before << " before, " << after
                        << " after, and at most " << most << " are expected");
  }
  sw::world().barrier();
  ::munmap(memory, size);
  ::close(descriptor);

  if (mesh.rank() != 0) read();
  CHECK(mine == blocks.view().elements() * 4);
  Index all = 0;
  sw::world().all_reduce(&mine, &all, 1, sw::data_type<Index>, sw::ReduceOp::sum);
  CHECK(all == rows * columns * 4);
  CHECK(sw::full_tensor(blocks) == sw::full_tensor(x));
}

TEST_CASE("JSON files and small files") {
  const ScratchFolder folder;
  const auto good = folder.file("good.json", "{\"a\": [1, {\"b\": 2}, {\"b\": 3}], \"b\": {\"a\": 1}}");
  CHECK(sw::read_json(good).at("a").at(2).at("b") == 3);
  CHECK(error_of([&] { sw::read_json(folder / "none.json"); }) ==
        (folder / "none.json").string() + ": cannot be opened: No such file or directory");
  const auto bad = folder.file("bad.json", "{\n  \"a\": 1,\n  \"b\": ]\n}");
  CHECK(error_of([&] {
          sw::read_json(bad);
        }).find(bad.string() + ": not JSON: parse error at line 3, column 8") == 0);
  const auto twice = folder.file("twice.json", "[{\"a\": 1}, {\"c\": {\"a\": 1, \"a\": 2}}]");
  CHECK(error_of([&] { sw::read_json(twice); }) ==
        twice.string() + ": the key \"a\" is there twice in one object");
  const auto huge = folder.file("huge.json", "[1e999]");
  CHECK(error_of([&] { sw::read_json(huge); }).find(huge.string() + ": not JSON: number overflow") == 0);

  sw::world().barrier();
  if (sw::world().rank() == 0) {
    sw::write_file_atomically(folder / "note.txt", "first");
    sw::write_file_atomically(folder / "note.txt", "second");
    CHECK(bytes_of_file(folder / "note.txt") == "second");
    CHECK(error_of([&] {
            sw::write_file_atomically(folder / "none" / "note.txt", "");
          }).find("cannot be created") != std::string::npos);
    std::filesystem::create_directory(folder / "taken");
    CHECK(error_of([&] {
            sw::write_file_atomically(folder / "taken", "x");
          }).find((folder / "taken").string() + ": cannot be renamed from taken.tmp-") == 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      CHECK(!has(entry.path().string(), ".tmp-"));
    }
  }
}

TEST_CASE("pending sums have no elements to write") {
  using Pending = sw::Tensor<float, 2, Line, Partial<>>;
  using Blocks = sw::Tensor<float, 2, Line, Shard<0>>;
  static_assert(std::is_constructible_v<sw::NamedTensor, std::string, Blocks>);
  static_assert(!std::is_constructible_v<sw::NamedTensor, std::string, Pending>);
}

}  // namespace shardwise::testing::safetensors
