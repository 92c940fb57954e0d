// The whole model on a GPU's kernels: on the emulator always, on a GPU where one is at hand. The yardstick is the host in fp32.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "experiment/evaluation.h"
#include "model_support.h"

using namespace patchbay;
using namespace patchbay::test;
using nlohmann::json;

namespace {

/// Devices that this machine has; says once which it has not.
const std::vector<std::string>& devices() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> names = {"simt"};
    try {
      make<Backend>({"cuda", nullptr});
      names.push_back("cuda");
    } catch (const Error& error) {
      std::cout << "not tested on device cuda: " << error.what() << "\n";
    }
    return names;
  }();
  return found;
}

std::shared_ptr<const ModelFile> tiny_file() {
  static const auto file = ModelFile::open(tiny_shakespeare().path);
  return file;
}

std::unique_ptr<Session> session_of(const std::string& settings, int sequences = 4) {
  return std::make_unique<Session>(tiny_file(), read_run_config(parse_yaml(settings, "test")), SessionOptions{256, sequences});
}

std::vector<std::vector<Token>> prompts() {
  const json golden = json::parse(read_file(source_path("tests/golden/tiny_shakespeare/expected.json")));
  std::vector<std::vector<Token>> all;
  for (const json& prompt : golden.at("prompts")) {
    auto ids = prompt.at("ids").get<std::vector<Token>>();
    if (ids.size() <= 20) all.push_back(std::move(ids));
  }
  REQUIRE(all.size() > 2);
  return all;
}

std::vector<Token> generated(Session& s, const std::vector<Token>& prompt, const std::string& decoder, std::int64_t tokens) {
  GenerationRequest made = request(s, prompt, decoder, tokens);
  return generate(s.runner(), {&made, 1})[0].tokens;
}

/// How far the two largest of a row are apart: below it, another rounding may choose another token.
float margin(const std::vector<float>& logits) {
  std::vector<float> sorted = logits;
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return sorted[0] - sorted[1];
}

/// Largest distance of a logit from the host's in fp32, with activations and cache in fp16. Measured on the emulator: 0.0031.
constexpr double kTolerance = 0.01;

/// Both runs choose the same tokens, up to a place where the host's choice was nearer than the tolerance.
void check_same_tokens(Session& host, Session& device, const std::vector<Token>& prompt, const std::string& decoder, double near) {
  constexpr std::int64_t kTokens = 6;
  const auto wanted = generated(host, prompt, "greedy", kTokens), tokens = generated(device, prompt, decoder, kTokens);
  const auto same = std::mismatch(tokens.begin(), tokens.end(), wanted.begin(), wanted.end()).second - wanted.begin();
  if (same == std::ssize(wanted)) return;
  std::vector<Token> text = prompt;
  text.insert(text.end(), wanted.begin(), wanted.begin() + same);
  INFO(decoder << ", token " << same);
  CHECK(margin(last_logits(host.runner(), text)) < near);
}

/// A runner whose logits the host's processors and decoder see.
class OnHost : public ModelRunner {
 public:
  explicit OnHost(ModelRunner& runner) : runner_(runner) {}
  int vocabulary() const override { return runner_.vocabulary(); }
  std::int64_t context_length() const override { return runner_.context_length(); }
  SeqId open() override { return runner_.open(); }
  SeqId fork(SeqId parent) override { return runner_.fork(parent); }
  void close(SeqId seq) override { runner_.close(seq); }
  Step forward(std::span<const TokenRow> rows, bool wants_hidden) override { return runner_.forward(rows, wants_hidden); }
  void commit(SeqId seq, std::span<const std::int32_t> path) override { runner_.commit(seq, path); }
  void rollback(SeqId seq, std::int64_t n) override { runner_.rollback(seq, n); }
  std::int64_t length(SeqId seq) const override { return runner_.length(seq); }
  void set_probe(Probe* probe) override { runner_.set_probe(probe); }

 private:
  ModelRunner& runner_;
};

}  // namespace

TEST_CASE("device: logits are the host's within tolerance, for each store, cache format, attention and number type") {
  const auto host = session_of("activations: fp32");
  struct Case { const char *store, *attention; std::string activations; double tolerance; };
  const std::vector<Case> cases = {{"{type: contiguous, format: fp16}", "flash", "fp16", kTolerance},
                                   {"{type: paged, format: int8, block_size: 8}", "naive", "fp16", 0.06},  // measured: 0.025
                                   {"{type: paged, format: fp16}", "flash", "bf16", 0.06}};                // measured: 0.023
  for (const std::string& device : devices()) {
    for (const auto& [store, attention, activations, tolerance] : cases) {
      INFO(device << " " << activations << ", " << store << ", " << attention);
      const auto s = session_of("device: " + device + "\nbackend: {type: " + device + ", activations: " + activations +
                                "}\nkv_store: " + store + "\nattention: " + attention);
      double largest = 0;
      for (const auto& prompt : prompts()) {
        largest = std::max(largest, distance(last_logits(s->runner(), prompt), last_logits(host->runner(), prompt)));
      }
      INFO("largest distance " << largest);
      CHECK(largest < tolerance);
      CHECK(largest > 0);  // another arithmetic has run
    }
  }
}

TEST_CASE("device: greedy tokens are the host's, drafted or not, in both stores") {
  const auto host = session_of("activations: fp32");
  for (const std::string& device : devices()) {
    for (const char* store : {"contiguous", "paged"}) {
      const auto s = session_of("device: " + device + "\nkv_store: " + store);
      const auto all = prompts();
      check_same_tokens(*host, *s, all[0], "greedy", 2 * kTolerance);
      check_same_tokens(*host, *s, all[1], "{type: speculative, k: 4, drafter: lookup}", 2 * kTolerance);
    }
  }
}

TEST_CASE("device: a row's logits are the same bits in chunks, in a batch and beside others") {
  for (const std::string& device : devices()) {
    for (const char* store : {"contiguous", "{type: paged, block_size: 4}"}) {
      const auto s = session_of("device: " + device + "\ndeterministic: true\nkv_store: " + store);
      ModelRunner& runner = s->runner();
      const auto all = prompts();
      const std::vector<Token>&one = all[0], &other = all[1];
      const auto alone = last_logits(runner, one);
      const SeqId a = runner.open(), b = runner.open();
      auto rows = chain(b, other, false);
      const auto more = chain(a, one, false);
      rows.insert(rows.end(), more.begin(), more.end());
      CHECK(copied(runner.forward(rows).logits[1]) == alone);
      runner.commit(b, {});
      runner.commit(a, {});
      for (const Token token : one) {  // token by token: decoding steps, replayed from the third on where the device has graphs
        const std::vector<TokenRow> row = {{a, token, -1, true}};
        const auto logits = copied(runner.forward(row).logits[0]);
        commit_all(runner, a, 1);
        if (&token == &one.back()) CHECK(logits == alone);
      }
      runner.close(a);
      runner.close(b);
    }
  }
}

TEST_CASE("device: a tree of drafts gives each branch what it gives alone; forks and rollbacks keep the cache whole") {
  for (const std::string& device : devices()) {
    for (const char* store : {"contiguous", "{type: paged, block_size: 4}"}) {
      const auto s = session_of("device: " + device + "\ndeterministic: true\nkv_store: " + store);
      ModelRunner& runner = s->runner();
      const std::vector<Token> text = prompts()[0];
      const Token left = 5, right = 9;
      std::vector<Token> with_left = text, with_right = text;
      with_left.push_back(left);
      with_right.push_back(right);
      const SeqId seq = runner.open();
      runner.forward(chain(seq, text, false));
      commit_all(runner, seq, text.size());
      const std::vector<TokenRow> tree = {{seq, left, -1, true}, {seq, right, -1, true}};
      const Step step = runner.forward(tree);
      const auto of_left = copied(step.logits[0]);
      runner.commit(seq, std::vector<std::int32_t>{1});  // the right branch stays, and moves in the cache
      CHECK(of_left == last_logits(runner, with_left));
      const SeqId child = runner.fork(seq);
      runner.rollback(seq, 1);
      const auto next = [&](SeqId of, Token token) {
        const std::vector<TokenRow> row = {{of, token, -1, true}};
        auto logits = copied(runner.forward(row).logits[0]);
        commit_all(runner, of, 1);
        return logits;
      };
      CHECK(next(seq, right) == last_logits(runner, with_right));
      with_right.push_back(left);
      CHECK(next(child, left) == last_logits(runner, with_right));
    }
  }
}

TEST_CASE("device: every architecture, experts and all: logits are the host's") {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/golden/architectures"))) {
    if (entry.path().extension() != ".gguf") continue;
    INFO(entry.path().filename().string());
    const auto file = ModelFile::open(entry.path().string());
    const auto logits = [&](const std::string& settings) {
      Session s(file, read_run_config(parse_yaml(settings, "test")), SessionOptions{12, 1});
      std::vector<Token> tokens;
      for (int i = 0; i < 12; ++i) tokens.push_back((i * 7 + 3) % s.runner().vocabulary());
      return last_logits(s.runner(), tokens);
    };
    const auto host = logits("activations: fp32\nattention: naive"), device = logits("device: simt\nbackend: {type: simt, activations: fp16}\nattention: naive");
    float largest = 0;
    for (const float logit : host) largest = std::max(largest, std::abs(logit));
    INFO("largest distance " << distance(device, host) << " of " << largest);
    CHECK(distance(device, host) < 0.01 * largest);
    ++models;
  }
  CHECK(models > 10);
}

TEST_CASE("device: activations that fp16 cannot hold are bf16 where the model says so, and an error naming the layer where not") {
  const TemporaryFolder folder;
  // A layer whose feed-forward part gives a hundred thousand times what it was trained to.
  const auto file_of = [&](const std::string& name) {
    const auto model = ModelFile::open(source_path("tests/golden/architectures/" + name));
    const FileTensor* down = model->tensor("blk.1.ffn_down.weight");
    std::string bytes = read_file(model->path());
    const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(down->data), 256));  // random numbers: nowhere else
    for (std::int64_t i = 0; i < down->bytes; i += 4) {
      float weight;
      std::memcpy(&weight, &bytes[at + static_cast<std::size_t>(i)], 4);
      weight *= 1e5f;
      std::memcpy(&bytes[at + static_cast<std::size_t>(i)], &weight, 4);
    }
    std::ofstream(folder.path + "/" + name, std::ios::binary) << bytes;
    return ModelFile::open(folder.path + "/" + name);
  };
  const auto session = [](std::shared_ptr<const ModelFile> file, const std::string& settings) {
    return Session(std::move(file), read_run_config(parse_yaml(settings + "\nattention: naive", "test")), SessionOptions{12, 4});
  };
  std::vector<Token> tokens = {3, 10, 17, 24, 31, 38};
  for (const std::string& device : devices()) {
    const std::string settings = "device: " + device;
    const auto with = [&](const char* type) { return settings + "\nbackend: {type: " + device + ", activations: " + type + "}"; };
    const auto qwen = file_of("qwen2.gguf"), gemma = file_of("gemma3.gguf");
    Session host = session(qwen, "activations: fp32"), chosen = session(qwen, settings), wide = session(qwen, with("bf16"));
    CHECK(chosen.paths().at("activations") == "f16");
    for (const std::size_t count : {tokens.size(), std::size_t{2}}) {  // the kernels of prefill and of decoding; it fails again and again
      tokens.resize(count);
      CHECK_THROWS_WITH(last_logits(chosen.runner(), tokens),
                        Catch::Contains("layer 1: ffn_output") && Catch::Contains("in f16") && Catch::Contains("activations: bf16"));
      const auto expected = last_logits(host.runner(), tokens);
      float largest = 0;
      for (const float logit : expected) largest = std::max(largest, std::abs(logit));
      CHECK(distance(last_logits(wide.runner(), tokens), expected) < 0.05 * largest);
    }
    CHECK_THROWS_WITH(generated(chosen, tokens, "greedy", 1), Catch::Contains("layer 1: ffn_output"));  // chosen on the device, too
    Session gemma_host = session(gemma, "activations: fp32"), gemma_chosen = session(gemma, settings);
    CHECK(gemma_chosen.paths().at("activations") == "bf16");
    CHECK(distance(last_logits(gemma_chosen.runner(), tokens), last_logits(gemma_host.runner(), tokens)) < 0.1);
  }
}

TEST_CASE("device: a step under the emulator's checks") {
  const auto host = session_of("activations: fp32");
  const auto s = session_of("device: simt\nbackend: {type: simt, checked: true}\nkv_store: {type: paged, block_size: 4}");
  std::vector<Token> prompt = prompts()[0];
  prompt.resize(2);
  CHECK(distance(last_logits(s->runner(), prompt), last_logits(host->runner(), prompt)) < kTolerance);
}

TEST_CASE("device: perplexity within half a percent of the host's, and a probe sees every intermediate") {
  const auto text_of = [](Session& s) { return evaluation_text(s.tokenizer(), source_path("data/tiny-shakespeare/evaluation.txt")); };
  const auto host = session_of("activations: fp32");
  for (const std::string& device : devices()) {
    const auto s = session_of("device: " + device);
    const auto protocol = protocol_named("patchbay", 64);
    const auto perplexity = [&](Session& of) { return perplexity_of(score(scored_model(of), text_of(of), protocol, {.windows = 1})).value; };
    CHECK(perplexity(*s) == Approx(perplexity(*host)).epsilon(5e-3));

    struct Names : Probe {
      std::map<std::string, int> seen;
      void saw(std::string_view name, int, TensorRef tensor) override {
        CHECK(tensor.device == 0);
        CHECK(tensor.dtype == DType::f32);
        ++seen[std::string(name)];
      }
    } of_device, of_host;
    for (auto [each, names] : {std::pair{s.get(), &of_device}, std::pair{host.get(), &of_host}}) {
      each->runner().set_probe(names);
      last_logits(each->runner(), prompts()[0]);
      each->runner().set_probe(nullptr);
    }
    CHECK(of_device.seen == of_host.seen);
  }
}

TEST_CASE("device: some layers there, the others on the host: the tokens are the same") {
  const auto host = session_of("activations: fp32");
  for (const std::string& device : devices()) {
    for (const int layers : {0, 1, 3, 4}) {
      const std::string store = layers == 1 ? "contiguous" : "{type: paged, block_size: 4}";
      INFO(layers << " layers on " << device << ", " << store);
      const auto s = session_of("device: " + device + "\ngpu_layers: " + std::to_string(layers) + "\nactivations: fp32\nkv_store: " + store);
      const auto prompt = prompts()[0];
      check_same_tokens(*host, *s, prompt, layers == 3 ? "{type: speculative, k: 4, drafter: lookup}" : "greedy", 2 * kTolerance);
      if (layers == 0) CHECK(last_logits(s->runner(), prompt) == last_logits(host->runner(), prompt));
      const std::string attention = s->paths().at("attention");
      CHECK((attention.find("layers") != std::string::npos) == (layers == 1 || layers == 3));
      CHECK(s->kv_store().usage().bytes_per_token == host->kv_store().usage().bytes_per_token);
    }
  }
}

TEST_CASE("device: a full cache, forks and closed sequences, split over two devices") {
  const std::string settings = "device: simt\ngpu_layers: 2\nactivations: fp32\nkv_store: {type: paged, block_size: 4, blocks: 6}";
  const auto s = session_of(settings);
  ModelRunner& runner = s->runner();
  const std::vector<Token> text(20, 7);
  const SeqId one = runner.open(), other = runner.open();
  CHECK_FALSE(runner.forward(chain(one, text, false)).full);
  commit_all(runner, one, text.size());
  CHECK(runner.forward(chain(other, text, false)).full);  // 24 tokens in all: nothing changed
  CHECK(runner.length(other) == 0);
  runner.close(one);
  CHECK_FALSE(runner.forward(chain(other, text, false)).full);
}

TEST_CASE("device: sampled tokens are the host's from the same logits; the record says where they were chosen") {
  for (const std::string& device : devices()) {
    const std::string chain = "\ndecoder: sampling\nprocessors: [{type: temperature, value: 0.9}, {type: top_k, k: 20}, {type: top_p, p: 0.9}]";
    const auto s = session_of("device: " + device + chain);
    CHECK(s->paths().at("choice_of_tokens") == "on the device");
    const auto texts = [&](ModelRunner& runner) {
      std::vector<GenerationRequest> requests;
      for (std::size_t i = 0; i < 2; ++i) {
        GenerationRequest made = request(*s, prompts()[i], "sampling", 4);
        made.processors = s->make_processors();
        made.seed = 3;
        made.stream = i;
        requests.push_back(made);
      }
      std::vector<std::vector<Token>> all;
      for (const auto& result : generate(runner, requests)) all.push_back(result.tokens);
      return all;
    };
    OnHost on_host(s->runner());
    CHECK(texts(s->runner()) == texts(on_host));
    const auto other = session_of("device: " + device + "\ndecoder: {type: speculative, accept: sample}");
    CHECK(other->paths().at("choice_of_tokens") == "on the host, from logits brought there");
  }
}

TEST_CASE("device: what cannot run is refused with what can") {
  CHECK_THROWS_WITH(session_of("device: simt\nactivations: q8"), Catch::Contains("q8") && Catch::Contains("fp32"));
  CHECK_THROWS_WITH(session_of("device: cpu\ngpu_layers: 2"), Catch::Contains("gpu_layers") && Catch::Contains("device cpu"));
  CHECK_THROWS_WITH(session_of("device: simt\ngpu_layers: 5"), Catch::Contains("5") && Catch::Contains("0 to 4"));
  CHECK_THROWS_WITH(session_of("device: simt\ngpu_layers: some"), Catch::Contains("all, or a number"));
  CHECK_THROWS_WITH(session_of("device: simt\nbackend: {type: simt, activations: fp8}"), Catch::Contains("auto, fp16, bf16"));
}
