// GGUF files: hostile ones are refused for the right reason, honest ones read as written.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/plain_numbers.h"
#include "gguf_writer.h"
#include "hostile.h"
#include "model_file.h"
#include "support.h"

using namespace patchbay;
using patchbay::test::GgufWriter;

namespace {

namespace fs = std::filesystem;

/// A folder that goes away with the test.
class Scratch {
 public:
  Scratch() : folder_(fs::temp_directory_path() / ("patchbay_model_file_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Scratch() { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string file(const std::string& bytes, const std::string& name = "x.gguf") const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  fs::path folder_;
};

/// The reason why a file is refused, or "" when it is not.
std::string refusal(const std::string& path) {
  try {
    check_model(*ModelFile::open(path));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

#define CHECK_REFUSED(path, words)               \
  do {                                          \
    const std::string reason = refusal(path);   \
    INFO(reason);                               \
    CHECK(test::has_all_words(reason, words));  \
    CHECK(reason.find('\n') == std::string::npos); \
  } while (false)

/// One block, 4 tokens, everything 1: heads 2 x 4, feed-forward 16.
struct TinyLlama {
  bool tied = true;
  std::uint32_t heads = 2, kv_heads = 1, blocks = 1;
  std::vector<std::string> tokens{"a", "b", "c", "d"};
  std::vector<std::uint64_t> down{16, 8};

  GgufWriter build() const {
    GgufWriter file;
    file.string("general.architecture", "llama");
    file.u32("llama.block_count", blocks);
    file.u32("llama.context_length", 64);
    file.u32("llama.embedding_length", 8);
    file.u32("llama.feed_forward_length", 16);
    file.u32("llama.attention.head_count", heads);
    file.u32("llama.attention.head_count_kv", kv_heads);
    file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    file.string("tokenizer.ggml.model", "gpt2");
    file.strings("tokenizer.ggml.tokens", tokens);
    const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape) {
      std::size_t count = 1;
      for (const auto extent : shape) count *= extent;
      file.tensor(name, shape, std::vector<float>(count, 1.0f));
    };
    add("token_embd.weight", {8, 4});
    add("output_norm.weight", {8});
    if (!tied) add("output.weight", {8, 4});
    add("blk.0.attn_norm.weight", {8});
    add("blk.0.attn_q.weight", {8, 8});
    add("blk.0.attn_k.weight", {8, 4});
    add("blk.0.attn_v.weight", {8, 4});
    add("blk.0.attn_output.weight", {8, 8});
    add("blk.0.ffn_norm.weight", {8});
    add("blk.0.ffn_gate.weight", {8, 16});
    add("blk.0.ffn_up.weight", {8, 16});
    add("blk.0.ffn_down.weight", down);
    return file;
  }
};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("every hostile GGUF file is refused for its reason, every honest one accepted") {
  PATCHBAY_NEEDS(test::shared_path("hostile/manifest.json"), "shared/hostile");
  const auto cases = test::hostile_cases("gguf");
  for (const auto& one : cases) {
    const std::string reason = refusal(one.file);
    INFO(one.file << ": " << one.wrong << "\n" << reason);
    CHECK(reason.empty() == one.expect.empty());
    CHECK(test::has_all_words(reason, one.expect));
    if (!one.expect.empty() && !one.model) CHECK(reason.find("at byte ") != std::string::npos);
  }
  CHECK(cases.size() == 105);
}

TEST_CASE("a written file reads back: every kind of value, tensors, offsets") {
  const Scratch scratch;
  GgufWriter writer;
  writer.u32("u", 7);
  writer.i32("i", -7);
  writer.f32("f", 0.5f);
  writer.boolean("b", true);
  writer.string("s", "gr\xC3\xBC\xC3\x9F");
  writer.strings("list", {"one", "", "three"});
  writer.i32s("ints", {1, -2});
  writer.f32s("reals", {1.5f});
  writer.strings("tokenizer.ggml.tokens", {"\xFF\xFE"});  // token texts are bytes
  writer.string("general.architecture", "none");
  writer.tensor("w", {3, 1}, {1.0f, 2.0f, 3.0f});
  writer.tensor_f16("h", {2}, {1.0f, -2.0f});
  writer.tensor("q", 2, {32, 2}, std::string(36, '\x11'));
  const auto file = ModelFile::open(scratch.file(writer.bytes()));
  CHECK(file->version() == 3);
  CHECK(file->integer("u") == 7);
  CHECK(file->real("f") == 0.5);
  CHECK(file->maybe_boolean("b") == true);
  CHECK(file->string("s") == "gr\xC3\xBC\xC3\x9F");
  CHECK(std::get<std::vector<std::string_view>>(file->find("list")->value)[2] == "three");
  CHECK(std::get<std::vector<std::int64_t>>(file->find("ints")->value) == std::vector<std::int64_t>{1, -2});
  CHECK(!file->maybe_integer("absent").has_value());
  CHECK(file->find("absent") == nullptr);
  CHECK_THROWS_WITH(file->integer("absent"), Catch::Contains("missing key"));
  CHECK_THROWS_WITH(file->integer("s"), Catch::Contains("wrong key type string"));
  CHECK_THROWS_WITH(file->integer("i"), Catch::Contains("out of range: -7"));

  REQUIRE(file->tensors().size() == 3);
  const FileTensor* w = file->tensor("w");
  REQUIRE(w != nullptr);
  CHECK(w->shape == std::vector<std::int64_t>{3, 1});
  CHECK(w->format == "fp32");
  float third = 0;
  std::memcpy(&third, w->data + 8, 4);
  CHECK(third == 3.0f);
  CHECK(file->tensor("h")->format == "fp16");
  CHECK(file->tensor("q")->type_name == "Q4_0");
  CHECK(file->tensor("q")->bytes == 36);
  CHECK(file->tensor("absent") == nullptr);
  file->release_pages();
  std::memcpy(&third, w->data + 8, 4);
  CHECK(third == 3.0f);
}

TEST_CASE("a type that is known but not computed passes the container's check and has no format") {
  const Scratch scratch;
  GgufWriter writer;
  writer.tensor("k", 16, {256}, std::string(66, '\0'));
  const std::string path = scratch.file(writer.bytes());
  CHECK(refusal(path).empty());
  CHECK(ModelFile::open(path)->tensor("k")->format.empty());
}

TEST_CASE("integers and 64-bit floats are read as numpy rounds them to fp32") {
  const auto golden = nlohmann::json::parse(test::read_file(test::source_path("tests/golden/gguf_blocks/blocks.json"))).at("types");
  const auto unhex = [](const std::string& hex) {
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    return bytes;
  };
  const std::pair<const char*, std::uint32_t> types[] = {{"I8", 24}, {"I16", 25}, {"I32", 26}, {"I64", 27}, {"F64", 28}};
  for (const auto& [name, code] : types) {
    INFO(name);
    const std::string stored = unhex(golden.at(name).at("blocks")), wanted = unhex(golden.at(name).at("values"));
    const std::int64_t count = std::ssize(wanted) / 4;
    const Scratch scratch;
    GgufWriter writer;
    writer.tensor("numbers", code, {static_cast<std::uint64_t>(count)}, stored);
    const auto file = ModelFile::open(scratch.file(writer.bytes()));
    REQUIRE(holds_plain_numbers(*file->tensor("numbers")));
    std::vector<float> values(static_cast<std::size_t>(count));
    read_plain_numbers(*file->tensor("numbers"), 0, {values.data(), {count}});
    CHECK(std::memcmp(values.data(), wanted.data(), wanted.size()) == 0);
    read_plain_numbers(*file->tensor("numbers"), count - 1, {values.data(), {1}});
    CHECK(std::memcmp(values.data(), wanted.data() + wanted.size() - 4, 4) == 0);
  }
}

namespace {

/// A part of a model of three tensors, "t0" to "t2".
struct SplitPart {
  std::uint16_t number = 0, count = 3;
  std::int32_t tensors = 3;
  std::string tensor, model_name = {};
  std::string bytes() const {
    GgufWriter writer;
    writer.pair("split.no", 2, std::string(reinterpret_cast<const char*>(&number), 2));
    writer.pair("split.count", 2, std::string(reinterpret_cast<const char*>(&count), 2));
    writer.i32("split.tensors.count", tensors);
    if (!model_name.empty()) writer.string("general.name", model_name);
    writer.tensor(tensor, {2}, {1.0f + static_cast<float>(tensor.back()), 2.0f});
    return writer.bytes();
  }
};

void write_parts(const Scratch& scratch, std::vector<SplitPart> parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) scratch.file(parts[i].bytes(), "m-0000" + std::to_string(i + 1) + "-of-00003.gguf");
}
const std::vector<SplitPart> kThreeParts = {{0, 3, 3, "t0", "m"}, {1, 3, 3, "t1"}, {2, 3, 3, "t2"}};

}  // namespace

TEST_CASE("a model in parts is read whole, from whichever part is named") {
  const Scratch scratch;
  write_parts(scratch, kThreeParts);
  for (const char* name : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    INFO(name);
    const auto file = ModelFile::open(scratch.path(name));
    REQUIRE(file->tensors().size() == 3);
    CHECK(file->string("general.name") == "m");
    CHECK(file->path() == scratch.path(name));
    REQUIRE(file->paths().size() == 3);
    CHECK(file->paths()[1] == scratch.path("m-00002-of-00003.gguf"));
    for (const char* tensor : {"t0", "t1", "t2"}) {
      float first = 0;
      std::memcpy(&first, file->tensor(tensor)->data, 4);
      CHECK(first == 1.0f + static_cast<float>(tensor[1]));
    }
    std::int64_t bytes = 0;
    for (const SplitPart& part : kThreeParts) bytes += std::ssize(part.bytes());
    CHECK(file->file_bytes() == bytes);
    file->release_pages();
  }
}

TEST_CASE("parts that do not make a model are refused, each with what is wrong and where") {
  const Scratch scratch;
  const auto refused = [&](std::vector<SplitPart> parts, const std::string& words) {
    write_parts(scratch, std::move(parts));
    CHECK_REFUSED(scratch.path("m-00001-of-00003.gguf"), words);
  };
  auto parts = kThreeParts;
  parts[2].tensor = "t1";
  refused(parts, "00003-of-00003 tensor 't1' duplicate 00002-of-00003");
  parts = kThreeParts;
  parts[1].count = 4;
  refused(parts, "00002-of-00003 split.count differs different models");
  parts = kThreeParts;
  parts[1].model_name = "another";
  refused(parts, "00002-of-00003 general.name differs");
  parts = kThreeParts;
  std::swap(parts[1], parts[2]);
  refused(parts, "00002-of-00003 is not part 2 of 3 split.no 1");
  parts = kThreeParts;
  for (auto& part : parts) part.tensors = 4;
  refused(parts, "split.tensors.count is 4 parts hold 3");
  parts = kThreeParts;
  parts[0].number = 3;
  refused(parts, "split.no bad split index 3 of 3");
  write_parts(scratch, kThreeParts);
  CHECK_REFUSED(scratch.file(kThreeParts[1].bytes(), "part2.gguf"), "part2.gguf part 2 of 3 -00002-of-00003.gguf");
  CHECK_REFUSED(scratch.file(kThreeParts[1].bytes(), "m-00001-of-00003.gguf"), "is part 2 of 3 name");
  write_parts(scratch, kThreeParts);
  std::filesystem::remove(scratch.path("m-00002-of-00003.gguf"));
  CHECK_REFUSED(scratch.path("m-00003-of-00003.gguf"), "m-00002-of-00003.gguf missing shard part 2 of 3 not here");
}

TEST_CASE("what stands in place of a model is named (C07)") {
  const Scratch scratch;
  CHECK_REFUSED(scratch.file(""), "truncated header empty");
  CHECK_REFUSED(scratch.file("GG"), "truncated header");
  CHECK_REFUSED(scratch.file("\n <!doctype HTML><html></html>"), "HTML");
  CHECK_REFUSED(scratch.file("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "Git LFS pointer");
  CHECK_REFUSED(scratch.file("tjgg and more"), "old container ggjt");
  CHECK_REFUSED(scratch.file("\x1f\x8b\x08 and more"), "gzip");
  CHECK_REFUSED(scratch.file("\x10" + std::string(7, '\0') + "{\"w\":1}       "), "safetensors");
  CHECK_REFUSED(scratch.file("\x1b[31m and more"), "bad magic \\x1b[31");
  CHECK_REFUSED(scratch.path("absent.gguf"), "absent.gguf cannot open");
  CHECK_REFUSED(fs::temp_directory_path().string(), "weights the folder holds none");
  CHECK_REFUSED("/dev/zero", "regular file");
  REQUIRE(::mkfifo(scratch.path("fifo").c_str(), 0600) == 0);
  CHECK_REFUSED(scratch.path("fifo"), "regular file");
}

TEST_CASE("a file cut anywhere is refused, never read past its end (C06)") {
  const Scratch scratch;
  const std::string whole = TinyLlama().build().bytes();
  for (std::size_t length = 0; length < whole.size() - 32; length += length < 800 ? 1 : 61) {
    INFO("cut to " << length << " of " << whole.size());
    CHECK(!refusal(scratch.file(whole.substr(0, length))).empty());
  }
  CHECK_REFUSED(scratch.file(whole.substr(0, whole.size() - 1)), "tensor data past end cut fetch");
}

TEST_CASE("any byte of the header may be wrong: an error or a model, never a crash") {
  const Scratch scratch;
  const GgufWriter writer = TinyLlama().build();
  const std::size_t header = writer.header().size();
  std::string bytes = writer.bytes();
  for (std::size_t i = 0; i < header; ++i) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      refusal(scratch.file(bytes));
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
    }
  }
  CHECK(refusal(scratch.file(bytes)).empty());
}

TEST_CASE("sizes that wrap around 64 bits are refused, that of the padding too (C03)") {
  const Scratch scratch;
  const auto with = [&](std::uint32_t type, std::vector<std::uint64_t> shape, std::uint64_t offset = 0) {
    GgufWriter writer;
    writer.info("w", type, shape, offset);
    return scratch.file(writer.bytes() + std::string(64, '\0'));
  };
  CHECK_REFUSED(with(0, {1ull << 32, 1ull << 32}), "element count overflow");
  CHECK_REFUSED(with(0, {1ull << 62}), "byte size overflow");
  CHECK_REFUSED(with(0, {4, (1ull << 20) - 1, (1ull << 40) + (1ull << 20) + 1}), "byte size overflow");
  CHECK_REFUSED(with(24, {(1ull << 63) - 1}), "tensor data past end");
  CHECK_REFUSED(with(0, {1ull << 63}), "dimension too large");
  CHECK_REFUSED(with(0, {4}, ~0ull - 31), "tensor data past end");
  CHECK_REFUSED(with(0, {1, 1, 1, 1, 1}), "too many dimensions");
  CHECK_REFUSED(with(2, {33}), "row not a multiple of block");
  CHECK_REFUSED(with(4, {32}), "withdrawn tensor type");
  CHECK_REFUSED(with(99, {32}), "bad tensor type");
}

TEST_CASE("tensors must lie back to back") {
  const Scratch scratch;
  const auto two = [&](std::uint64_t first, std::uint64_t second) {
    GgufWriter writer;
    writer.info("a", 0, {16}, first);
    writer.info("b", 0, {16}, second);
    std::string bytes = writer.bytes();
    bytes.resize((bytes.size() + 31) / 32 * 32 + 320);
    return scratch.file(bytes);
  };
  CHECK(refusal(two(0, 64)).empty());
  CHECK_REFUSED(two(0, 32), "tensors overlap");
  CHECK_REFUSED(two(0, 128), "gap between tensors 'b'");
  CHECK_REFUSED(two(64, 128), "gap between tensors 'a'");
  CHECK_REFUSED(two(64, 0), "tensor offsets out of order");
  CHECK_REFUSED(two(0, 65), "tensor offset not aligned");
  GgufWriter empty;  // found by the fuzzer: sorted by place and size these lie back to back, in the file's order they do not
  empty.info("a", 0, {16}, 0);
  empty.info("b", 0, {0}, 0);
  CHECK_REFUSED(scratch.file(empty.bytes() + std::string(96, '\0')), "tensors overlap 'b'");
}

TEST_CASE("keys: too long, nested arrays") {
  const Scratch scratch;
  GgufWriter long_key;
  long_key.u32(std::string(65536, 'k'), 1);
  CHECK_REFUSED(scratch.file(long_key.bytes()), "bad key 65536");
  GgufWriter nested;
  nested.array("a", 9, 1, GgufWriter::bytes_of<std::uint32_t>(4) + GgufWriter::bytes_of<std::uint64_t>(0));
  CHECK_REFUSED(scratch.file(nested.bytes()), "nested arrays");
}

TEST_CASE("rules of a model, each broken in turn") {
  const Scratch scratch;
  const auto broken = [&](auto change) {
    TinyLlama model;
    change(model);
    return refusal(scratch.file(model.build().bytes()));
  };
  CHECK(broken([](TinyLlama&) {}) == "");
  CHECK(broken([](TinyLlama& m) { m.tied = false; }) == "");
  CHECK_THAT(broken([](TinyLlama& m) { m.heads = 0; }), Catch::Contains("bad head count 0"));
  CHECK_THAT(broken([](TinyLlama& m) { m.heads = 3; }), Catch::Contains("bad head count 3"));
  CHECK_THAT(broken([](TinyLlama& m) { m.kv_heads = 4; }), Catch::Contains("bad kv head count 4"));
  CHECK_THAT(broken([](TinyLlama& m) { m.blocks = 2; }), Catch::Contains("blk.1.attn_norm.weight': missing tensor"));
  CHECK_THAT(broken([](TinyLlama& m) { m.blocks = 0; }), Catch::Contains("bad block count 0"));
  CHECK_THAT(broken([](TinyLlama& m) { m.tokens.push_back("a"); }), Catch::Contains("duplicate token 'a' (id 4)"));
  CHECK_THAT(broken([](TinyLlama& m) { m.tokens.push_back("e"); }), Catch::Contains("vocab larger than embedding"));
  CHECK_THAT(broken([](TinyLlama& m) { m.down = {8, 16}; }), Catch::Contains("ffn_down.weight': tensor shape mismatch: 8 x 16"));

  GgufWriter extra = TinyLlama().build();
  extra.tensor("blk.7.attn_norm.weight", {8}, std::vector<float>(8));
  CHECK_REFUSED(scratch.file(extra.bytes()), "unexpected tensor blk.7");
  GgufWriter end = TinyLlama().build();
  end.u32("tokenizer.ggml.eos_token_id", 4);
  CHECK_REFUSED(scratch.file(end.bytes()), "token id out of range");
}

TEST_CASE("many tensors are read in linear time, a sparse file of 5 GiB at once") {
  const Scratch scratch;
  GgufWriter many;
  for (int i = 0; i < 100000; ++i) many.info("t" + std::to_string(i), 0, {0}, 0);
  const std::string path = scratch.file(many.bytes());
  const auto start = std::chrono::steady_clock::now();
  CHECK(ModelFile::open(path)->tensors().size() == 100000);
  CHECK(milliseconds_since(start) < 5000);

  constexpr std::uint64_t kBytes = 5ull << 30;
  GgufWriter large;
  large.info("big", 24, {kBytes}, 0);
  large.info("after", 24, {32}, kBytes);
  const std::string sparse = scratch.file(large.bytes());
  fs::resize_file(sparse, fs::file_size(sparse) + kBytes + 32);
  const auto file = ModelFile::open(sparse);
  CHECK(file->tensor("after")->data - file->tensor("big")->data == kBytes);
  CHECK(file->tensor("after")->data[31] == std::byte{0});
}

TEST_CASE("the real model opens fast and passes") {
  const std::string path = test::smollm2_path();
  PATCHBAY_NEEDS(path, "SmolLM2-135M-Instruct.Q4_1.gguf");
  ModelFile::open(path);
  const auto start = std::chrono::steady_clock::now();
  const auto file = ModelFile::open(path);
  const double elapsed_ms = milliseconds_since(start);
  check_model(*file);
  INFO("opened in " << elapsed_ms << " ms");
  CHECK(elapsed_ms < 500);  // about 10 on an idle machine, tens of times that under sanitizers
  CHECK(file->tensors().size() == 272);
  CHECK(file->tensor("blk.0.ffn_down.weight")->type_name == "Q4_1");
  CHECK(file->trailing_bytes() < 32);
}

TEST_CASE("a file that another program shortens while it is mapped ends the process with a message, not with a signal") {
  test::GgufWriter writer;
  writer.tensor("w", {1 << 16}, std::vector<float>(1 << 16, 1.0f));
  const test::TemporaryFolder folder;
  const std::string path = folder / "shortened.gguf", said = folder / "said";
  writer.write(path);
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen(said.c_str(), "w", stderr) == nullptr) ::_exit(99);
    report_shortened_models();
    const auto other = ModelFile::open(test::source_path("tests/golden/tiny_llama/gqa_tied.gguf"));
    const auto file = ModelFile::open(path);
    std::filesystem::resize_file(path, 4096);
    volatile float last = 0;
    last = reinterpret_cast<const float*>(file->tensor("w")->data)[(1 << 16) - 1];
    ::_exit(last == 1 ? 98 : 97);  // not reached
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK_THAT(test::read_file(said), Catch::Contains("patchbay: " + path + ": was shortened by another program"));
}
