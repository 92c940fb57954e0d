#include "experiment/evaluation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <tuple>
#include <unistd.h>

#include "config.h"
#include "experiment/text_table.h"
#include "session.h"
#include "support.h"

using namespace patchbay;

namespace {

constexpr int kVocabulary = 7, kHidden = 3;

class OneThread : public Device {
 public:
  Buffer allocate(std::int64_t) override { throw Error("test", "not needed"); }
  void copy(TensorRef, TensorRef) override { throw Error("test", "not needed"); }
  int concurrency() const override { return 1; }
  void parallel_for(std::int64_t n, std::int64_t, FunctionRef<void(std::int64_t, std::int64_t, int)> body) override { body(0, n, 0); }
};

/// A "model" whose hidden state is a known function of the token, its position and the token before it.
class KnownModel : public ModelRunner {
 public:
  static void state(Token token, Token before, std::int64_t position, float* out) {
    out[0] = std::sin(1.0f + static_cast<float>(token));
    out[1] = std::cos(static_cast<float>(before) * 2.0f);
    out[2] = static_cast<float>(position % 5) / 5.0f;
  }
  int vocabulary() const override { return kVocabulary; }
  std::int64_t context_length() const override { return 1000; }
  SeqId open() override { ++open_sequences; tokens_.clear(); return 1; }
  SeqId fork(SeqId) override { throw Error("test", "not needed"); }
  void close(SeqId) override { --open_sequences; }
  Step forward(std::span<const TokenRow> rows, bool wants_hidden) override {
    Step step;
    step.full = full;
    REQUIRE(wants_hidden);
    largest_step = std::max(largest_step, std::ssize(rows));
    pending_.clear();
    hidden_.assign(rows.size() * kHidden, 0.0f);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      pending_.push_back(rows[i].token);
      const auto position = static_cast<std::int64_t>(tokens_.size() + i);
      const Token before = i > 0 ? rows[i - 1].token : tokens_.empty() ? -1 : tokens_.back();
      state(rows[i].token, before, position, hidden_.data() + i * kHidden);
    }
    step.hidden = View<const float, 2>(hidden_.data(), {std::ssize(rows), kHidden});
    return step;
  }
  void commit(SeqId, std::span<const std::int32_t> path) override { for (const auto i : path) tokens_.push_back(pending_[i]); }
  void rollback(SeqId, std::int64_t) override {}
  std::int64_t length(SeqId) const override { return std::ssize(tokens_); }
  void set_probe(Probe*) override {}

  bool full = false;
  int open_sequences = 0;
  std::ptrdiff_t largest_step = 0;

 private:
  std::vector<Token> tokens_, pending_;
  std::vector<float> hidden_;
};

/// logits[v] = sum_j hidden[j] * weight[j][v]; `scale` makes another model of it.
void known_head(View<const float, 2> hidden, View<float, 2> logits, float scale) {
  for (std::int64_t t = 0; t < hidden.shape[0]; ++t)
    for (int v = 0; v < kVocabulary; ++v) {
      float sum = 0;
      for (int j = 0; j < kHidden; ++j) sum += hidden(t, j) * scale * std::cos(static_cast<float>(1 + v * (j + 2)));
      logits(t, v) = sum;
    }
}

struct Fixture {
  KnownModel runner;
  OneThread device;
  EvaluationText text;
  Fixture() { for (int i = 0; i < 100; ++i) text.tokens.push_back((i * i + 3 * i) % kVocabulary); }
  ScoredModel model(float scale = 1.0f, std::int64_t max_batched = 1000) {
    return {runner, device, kHidden, max_batched, [scale](View<const float, 2> h, View<float, 2> l) { known_head(h, l, scale); }};
  }
};

/// The distribution over the next token, in long double, straight from the definitions.
std::vector<long double> probabilities(Token token, Token before, std::int64_t position, float scale) {
  float hidden[kHidden], logits[kVocabulary];
  KnownModel::state(token, before, position, hidden);
  known_head(View<const float, 2>(hidden, {1, kHidden}), View<float, 2>(logits, {1, kVocabulary}), scale);
  long double total = 0;
  std::vector<long double> result;
  for (const float logit : logits) total += std::exp(static_cast<long double>(logit));
  for (const float logit : logits) result.push_back(std::exp(static_cast<long double>(logit)) / total);
  return result;
}

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("patchbay_" + std::to_string(::getpid()) + name)).string();
}

}  // namespace

TEST_CASE("protocols score the tokens that they state") {
  CHECK(protocol_named("patchbay", 512).first_scored == 1);
  CHECK(protocol_named("patchbay", 512).scored() == 511);
  CHECK(protocol_named("llama.cpp", 512).first_scored == 257);
  CHECK(protocol_named("llama.cpp", 512).scored() == 255);  // n_ctx - 1 - n_ctx / 2
  CHECK_THROWS_WITH(protocol_named("llama", 512), Catch::Contains("patchbay, llama.cpp"));
  CHECK_THROWS_AS(protocol_named("patchbay", 1), Error);
  EvaluationText text;
  text.tokens.resize(100);
  CHECK(windows_in(text, protocol_named("patchbay", 30), 0) == 3);
  CHECK(windows_in(text, protocol_named("patchbay", 30), 2) == 2);
  CHECK_THROWS_AS(windows_in(text, protocol_named("patchbay", 30), 4), Error);
  CHECK_THROWS_AS(windows_in(text, protocol_named("patchbay", 101), 0), Error);
}

TEST_CASE("scores equal the definitions, under both protocols, with and without BOS") {
  for (const char* name : {"patchbay", "llama.cpp"})
    for (const Token bos : {-1, 5}) {
      Fixture f;
      f.text.bos = bos;
      const auto protocol = protocol_named(name, 12);
      const auto scores = score(f.model(), f.text, protocol, {.windows = 8});
      REQUIRE(std::ssize(scores.nll) == 8 * protocol.scored());
      long double sum = 0;
      std::size_t at = 0;
      for (int w = 0; w < 8; ++w)
        for (auto i = protocol.first_scored; i < 12; ++i) {
          const auto token = [&](std::int64_t k) { return k < 0 ? -1 : k == 0 && bos >= 0 ? bos : f.text.tokens[w * 12 + k]; };
          const auto nll = -std::log(probabilities(token(i - 1), token(i - 2), i - 1, 1.0f)[token(i)]);
          CHECK(scores.nll[at++] == Approx(static_cast<double>(nll)).epsilon(1e-6));
          sum += nll;
        }
      CHECK(perplexity_of(scores).value == Approx(std::exp(static_cast<double>(sum) / static_cast<double>(at))).epsilon(1e-6));
      CHECK(f.runner.open_sequences == 0);
    }
}

TEST_CASE("a window cut into chunks scores the same") {
  Fixture f;
  const auto protocol = protocol_named("llama.cpp", 12);
  const auto whole = score(f.model(), f.text, protocol, {.windows = 8});
  f.runner.largest_step = 0;
  const auto cut = score(f.model(1.0f, 5), f.text, protocol, {.windows = 8});
  CHECK(f.runner.largest_step == 5);
  CHECK(whole.nll == cut.nll);
}

TEST_CASE("divergence equals the definition; a baseline against itself is nothing") {
  Fixture f;
  const auto protocol = protocol_named("patchbay", 12);
  const auto path = temporary("hidden");
  const auto baseline = f.model();
  auto file = HiddenFile::create(path, kHidden);
  keep_hidden_states(baseline, f.text, protocol, 8, file);
  CHECK_FALSE(std::filesystem::exists(path));  // not before it is whole
  file.finish();
  const auto hidden = HiddenFile::open(path, kHidden);
  ScoreOptions options{.windows = 8, .baseline = &baseline, .baseline_hidden = &hidden};
  const auto same = score(baseline, f.text, protocol, options);
  for (std::size_t i = 0; i < same.kl.size(); ++i) {
    CHECK(std::fabs(same.kl[i]) < 1e-7);
    CHECK((same.top1[i] & TokenScores::kSame));
    CHECK(!(same.top1[i] & TokenScores::kRight) == !(same.top1[i] & TokenScores::kBaselineRight));
  }
  const auto other = score(f.model(1.7f), f.text, protocol, options);
  std::size_t at = 0;
  for (int w = 0; w < 8; ++w)
    for (int i = 1; i < 12; ++i, ++at) {
      const Token token = f.text.tokens[w * 12 + i - 1], before = i >= 2 ? f.text.tokens[w * 12 + i - 2] : -1;
      const auto p = probabilities(token, before, i - 1, 1.0f), q = probabilities(token, before, i - 1, 1.7f);
      long double kl = 0;
      for (int v = 0; v < kVocabulary; ++v) kl += p[v] * std::log(p[v] / q[v]);
      CHECK(other.kl[at] == Approx(static_cast<double>(kl)).epsilon(1e-5).margin(1e-9));
    }
  std::filesystem::remove(path);
}

TEST_CASE("a full cache and logits that are no numbers are errors, and leave no sequence open") {
  Fixture f;
  const auto protocol = protocol_named("patchbay", 12);
  auto broken = f.model();
  broken.head = [](View<const float, 2> h, View<float, 2> l) { known_head(h, l, 1.0f); l(0, 3) = NAN; };
  CHECK_THROWS_WITH(score(broken, f.text, protocol, {.windows = 1}), Catch::Contains("not finite"));
  f.runner.full = true;
  CHECK_THROWS_WITH(score(f.model(), f.text, protocol, {.windows = 1}), Catch::Contains("no room"));
  CHECK(f.runner.open_sequences == 0);
}

TEST_CASE("the standard error is that of llama.cpp") {
  // Written out from its definition: exp(mean) * sqrt((mean of squares - mean^2) / (n - 1)).
  const TokenScores scores{1, 4, {1.0f, 2.0f, 3.0f, 6.0f}, {}, {0, 0, 0, 0}};
  const auto perplexity = perplexity_of(scores);
  CHECK(perplexity.value == Approx(std::exp(3.0)));
  CHECK(perplexity.standard_error == Approx(std::exp(3.0) * std::sqrt((50.0 / 4 - 9) / 3)));
  CHECK(perplexity.tokens == 4);
}

TEST_CASE("SmolLM2 reads raw WikiText-2 as llama.cpp does: exactly in fp32, closely with activations in 8 bits") {
  const auto model = test::smollm2_path(), text_path = test::shared_path("data/wikitext2-test-raw.txt");
  PATCHBAY_NEEDS(model, "SmolLM2");
  PATCHBAY_NEEDS(text_path, "WikiText-2's test text");
  const auto protocol = protocol_named("llama.cpp", 512);
  const auto file = ModelFile::open(model);
  // llama.cpp on the file, and on its weights written out in fp32: 20 windows, ../shared/reference/peers.md.
  for (const auto& [activations, expected, tolerance] : {std::tuple{"fp32", 28.625, 0.001}, std::tuple{"q8", 28.757, 0.005}}) {
    const Settings base = parse_yaml(std::string("activations: ") + activations, "t.yaml");
    Session session(file, read_run_config(base), {512, 1});
    const auto text = evaluation_text(session.tokenizer(), text_path);
    const auto perplexity = perplexity_of(score(scored_model(session), text, protocol, {.windows = 20}));
    INFO(activations);
    CHECK(perplexity.tokens == 5100);
    CHECK(perplexity.value == Approx(expected).epsilon(tolerance));
    CHECK(perplexity.standard_error == Approx(1.260).epsilon(0.01));  // as llama.cpp states it
  }
}

TEST_CASE("hidden states that cannot get their name are a patchbay error") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "states.hidden";
  auto file = HiddenFile::create(path, 2);
  const float row[] = {1, 2};
  file.append(View<const float, 2>(row, {1, 2}));
  std::filesystem::create_directory(path);
  CHECK_THROWS_WITH(file.finish(), Catch::Contains(path + ": renaming failed"));
}

TEST_CASE("counts in words") {
  CHECK(counted(1, "window") == "1 window");
  CHECK(counted(0, "window") == "0 windows");
  CHECK(counted(std::string("12"), "thread") == "12 threads");
}
