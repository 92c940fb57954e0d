// Whole experiments, on a tiny random model that lies beside the tests.
#include "experiment/experiment.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config.h"
#include "experiment/record_set.h"
#include "experiment/records.h"
#include "experiment/report.h"
#include "experiment/session_pool.h"
#include "files.h"
#include "session.h"
#include "support.h"

using namespace patchbay;
namespace fs = std::filesystem;

namespace {

const std::string kModel = test::source_path("tests/golden/tiny_llama/gqa_tied.gguf");

/// A folder with a text and prompts that a context of 128 bytes can take.
struct Place : test::TemporaryFolder {
  Place() {
    write_file_atomically(path + "/text.txt", test::read_file(test::source_path("data/evaluation.txt")).substr(0, 600));
    write_file_atomically(path + "/prompts.jsonl",
                          "{\"name\": \"a\", \"kind\": \"story\", \"prompt\": \"the cat and the hat\", \"max_tokens\": 12}\n"
                          "{\"name\": \"b\", \"kind\": \"copy\", \"prompt\": \"one two one two one\"}\n");
  }

  Plan plan(const std::string& rest, const std::string& tasks = "[perplexity, divergence, generation, throughput, memory]",
            const std::string& noise = "false") const {
    const auto yaml = "name: tiny\nmodel: " + kModel + "\nnoise: " + noise + "\ntasks: " + tasks + "\nrepeat: 2\nevaluation: {text: " + path + "/text.txt, prompts: " +
                      path + "/prompts.jsonl, window: 64, chunks: 3, prompt_count: 2, max_tokens: 16, prefill_tokens: 32}\n" + rest;
    return read_plan(parse_yaml(yaml, "tiny.yaml"), "");
  }
};

struct Quiet : Progress {
  std::vector<std::string> notes;
  double last = 0;
  bool ascending = true;
  void doing(double fraction, const std::string&) override {
    ascending = ascending && fraction >= last - 1e-9 && fraction <= 1;
    last = fraction;
  }
  void note(const std::string& line) override { notes.push_back(line); }
};

std::vector<Json> run(Plan plan, const std::string& out, bool resume = false, Quiet* progress = nullptr) {
  Quiet quiet;
  const auto file = check_plan(plan);
  return run_experiment(plan, file, {out, resume, 2}, progress ? *progress : quiet);
}

const char* kSweep = R"(
base: {activations: fp32}
sweep:
  weights: {as stored: none, int4: {quantizer: rtn, format: {type: int_grouped, bits: 4, group_size: 16}}}
  kv_store.format: [fp32, int8]
  decoder: {greedy: greedy, lookup: {type: speculative, drafter: lookup}}
baseline: {weights: none, kv_store.format: fp32, decoder: greedy}
)";

}  // namespace

TEST_CASE("an experiment ends in one record per run, with what the design promises") {
  Place place;
  Quiet progress;
  const auto records = run(place.plan(kSweep), place.path + "/out", false, &progress);
  REQUIRE(records.size() == 8);
  CHECK(progress.ascending);
  CHECK(read_records(place.path + "/out") == records);
  for (const auto& record : records) {
    for (const char* key : {"name", "model", "config", "seed", "paths", "environment", "metrics", "hash", "baseline", "labels"})
      CHECK(record.contains(key));
    const auto& metrics = record["metrics"];
    for (const char* key : {"perplexity", "kl_nats", "top1_agreement", "flips", "weights_bytes", "bits_per_weight", "quantized_bits_per_weight",
                            "kv_bytes_per_token", "peak_rss_bytes", "prefill_tokens_per_s", "decode_tokens_per_s", "ttft_ms", "tpot_ms", "tokens_per_pass"})
      CHECK(metrics.contains(key));
    CHECK(metrics["perplexity_ci"][0] <= metrics["perplexity"]);
    CHECK(metrics["perplexity"] <= metrics["perplexity_ci"][1]);
    CHECK(metrics["prefill_tokens_per_s_values"].size() == 2);
    CHECK(metrics["scored_tokens"] == 3 * 63);
    CHECK(metrics["predicted_weights_bytes"] == metrics["weights_bytes"]);
    CHECK(metrics["predicted_kv_bytes_per_token"] == metrics["kv_bytes_per_token"]);
    CHECK(metrics["predicted_decode_bytes_per_token"] > 0);
    for (const std::string phase : {"prefill", "decode"}) {
      const double measured = metrics[phase + "_tokens_per_s"], predicted = metrics["predicted_" + phase + "_tokens_per_s"];
      CHECK(metrics[phase + "_of_roofline"].get<double>() == Approx(measured / predicted));
    }
    CHECK(record["environment"]["calibration"]["memory_read_bytes_per_s"]["median"] > 0);
    CHECK(record["outputs"].size() == 2);
    for (std::size_t p = 0; p < 2; ++p) {  // one prompt of each kind
      const auto& output = record["outputs"][p];
      const auto& figures = record["by_kind"][output["kind"].get<std::string>()];
      CHECK(figures["prompts"] == 1);
      CHECK(figures["generated_tokens"] == output["tokens"].size());
      CHECK(figures["tokens_per_pass"].get<double>() == Approx((output["tokens"].size() - 1.0) / output["passes"].get<double>()));
      CHECK(figures.contains("acceptance_rate") == (output["drafted"] > 0));
      CHECK(figures["decode_tokens_per_s_values"].size() == 2);
    }
    CHECK(metrics.contains("acceptance_rate") == (record["labels"]["decoder"] == "lookup" && metrics.contains("acceptance_rate")));
  }
  const auto& baseline = records[0]["metrics"];
  CHECK(records[0]["baseline"] == true);
  CHECK(std::fabs(baseline["kl_nats"].get<double>()) < 1e-7);  // what keeping hidden states costs
  CHECK(baseline["top1_agreement"] == 1.0);
  CHECK(baseline["perplexity_ratio"] == 1.0);
  CHECK(baseline["flips"] == 0);
  const auto& int8_cache = records[2]["metrics"];
  const auto& int4 = records[4]["metrics"];
  CHECK(records[4]["labels"]["weights"] == "int4");
  CHECK(int8_cache["kl_nats"] > 1e-7);
  CHECK(int4["kl_nats"] > int8_cache["kl_nats"]);
  CHECK(int4["quantized_bits_per_weight"] < 8);
  CHECK(baseline["quantized_bits_per_weight"].is_null());
  CHECK(int8_cache["kv_bytes_per_token"] < baseline["kv_bytes_per_token"]);
  CHECK_FALSE(report_table(records, true).empty());
  CHECK(fs::exists(place.path + "/out/experiment.json"));
  for (const auto& entry : fs::directory_iterator(place.path + "/out/scores")) CHECK(entry.path().extension() == ".bin");
}

TEST_CASE("a decoder changes speed, not quality: one result serves both, and greedy drafting gives greedy's tokens") {
  Place place;
  const auto records = run(place.plan(kSweep), place.path + "/out");
  for (std::size_t i = 0; i < records.size(); i += 2) {
    CHECK(records[i]["evaluation"]["scores"] == records[i + 1]["evaluation"]["scores"]);
    CHECK(records[i]["metrics"]["kl_nats"] == records[i + 1]["metrics"]["kl_nats"]);
    CHECK(records[i]["hash"] != records[i + 1]["hash"]);
    for (std::size_t p = 0; p < 2; ++p) CHECK(records[i]["outputs"][p]["tokens"] == records[i + 1]["outputs"][p]["tokens"]);
  }
  CHECK(std::distance(fs::directory_iterator(place.path + "/out/scores"), {}) == 4);
}

TEST_CASE("resuming with other settings and back shows the records that were asked for, and says what is measured again") {
  Place place;
  const auto out = place.path + "/out";
  auto plan = place.plan("base: {activations: fp32}\nsweep: {kv_store.format: [fp32, int8]}", "[perplexity]");
  const auto three = run(plan, out);
  auto fewer = plan;
  fewer.evaluation.chunks = 2;
  Quiet progress;
  const auto two = run(fewer, out, true, &progress);
  CHECK_THAT(progress.notes.front(), Catch::Contains("2 of 2 runs of this folder are measured again") && Catch::Contains("windows"));
  REQUIRE(two[0]["hash"] != three[0]["hash"]);
  CHECK(run(plan, out, true) == three);
  const std::string folders[] = {out};
  const auto set = read_record_set(folders);
  REQUIRE(set.records.size() == 2);
  CHECK(set.records == three);  // the newest of these settings are of two windows
  CHECK(set.sources[0].left_out == 2);
}

TEST_CASE("resuming computes what is missing and keeps the rest, even without the baseline's kept states") {
  Place place;
  const auto out = place.path + "/out";
  const auto whole = run(place.plan(kSweep), out);
  const auto lines = test::read_file(out + "/records.jsonl");
  std::size_t end = 0;
  for (int i = 0; i < 3; ++i) end = lines.find('\n', end) + 1;
  write_file_atomically(out + "/records.jsonl", lines.substr(0, end + 40));  // three records and a torn fourth
  CHECK_THROWS_WITH(run(place.plan(kSweep), out), Catch::Contains("--resume"));
  const auto resumed = run(place.plan(kSweep), out, true);
  REQUIRE(resumed.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (i < 3) CHECK(resumed[i] == whole[i]);
    CHECK(resumed[i]["hash"] == whole[i]["hash"]);
    for (const char* metric : {"perplexity", "kl_nats", "kl_nats_ci", "top1_agreement", "perplexity_ratio_ci"})
      CHECK(resumed[i]["metrics"][metric] == whole[i]["metrics"][metric]);
  }
  CHECK(read_records(out) == resumed);
  // Without its scores a run is not finished: both are made again, and are the same.
  fs::remove_all(out + "/scores");
  const auto again = run(place.plan(kSweep), out, true);
  CHECK(read_records(out).size() == 2 * whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(fs::exists(out + "/" + again[i]["evaluation"]["scores"].get<std::string>()));
    for (const char* metric : {"perplexity", "kl_nats"}) CHECK(again[i]["metrics"][metric] == whole[i]["metrics"][metric]);
  }
}

TEST_CASE("a finished sweep is not computed again; a new value of an axis is") {
  Place place;
  const auto out = place.path + "/out";
  const auto first = run(place.plan("sweep: {kv_store.format: [fp32, int8]}", "[divergence]"), out);
  const auto again = run(place.plan("sweep: {kv_store.format: [fp32, int8]}", "[divergence]"), out, true);
  CHECK(first == again);
  const auto more = run(place.plan("sweep: {kv_store.format: [fp32, int8, fp16]}", "[divergence]"), out, true);
  REQUIRE(more.size() == 3);
  CHECK(more[0] == first[0]);
  CHECK(more[2]["metrics"]["kl_nats"] > 0);
  CHECK(read_records(out).size() == 3);
  const auto other_seed = place.plan("seed: 1\nsweep: {kv_store.format: [fp32, int8]}", "[divergence]");
  CHECK(run(other_seed, out, true)[0]["hash"] != first[0]["hash"]);
}

TEST_CASE("the baseline again: its times are taken anew, its quality is computed in other batches, and is the same bit for bit") {
  Place place;
  const auto out = place.path + "/out";
  const auto records = run(place.plan("base: {activations: q8}\nsweep: {kv_store.format: [fp32, int8]}", "[perplexity, divergence, throughput]", "true"), out);
  REQUIRE(records.size() == 3);
  const auto &baseline = records[0], &again = records[1];
  CHECK(again["noise"] == true);
  CHECK(again["run"] == "baseline again");
  CHECK(again["config"] == baseline["config"]);
  CHECK(again["hash"] != baseline["hash"]);
  CHECK(again["evaluation"]["windows"] == 1);  // a fifth of three, rounded up
  CHECK(again["evaluation"]["batch_split"] == 21);
  CHECK(again["evaluation"]["scores"] != baseline["evaluation"]["scores"]);
  const auto part = first_windows(read_scores(out + "/" + baseline["evaluation"]["scores"].get<std::string>()), 1);
  CHECK(read_scores(out + "/" + again["evaluation"]["scores"].get<std::string>()).nll == part.nll);
  const auto& metrics = again["metrics"];
  CHECK(metrics["perplexity_ratio"] == 1.0);
  CHECK(metrics["flips"] == 0);
  CHECK(std::fabs(metrics["kl_nats"].get<double>()) < 1e-7);
  CHECK_FALSE(metrics.contains("perplexity"));  // of another text than the others'
  CHECK(metrics["decode_tokens_per_s_values"] != baseline["metrics"]["decode_tokens_per_s_values"]);
  for (const char* ratio : {"prefill_speed_ratio", "decode_speed_ratio"}) {
    CHECK(metrics.contains(std::string(ratio) + "_ci"));
    CHECK_FALSE(baseline["metrics"].contains(ratio));
    CHECK(records[2]["metrics"].contains(ratio));
  }
}

TEST_CASE("a noise row that differs shows: a baseline computed in other batches by other arithmetic would not be 0") {
  // The row is computed, not assumed: scores that are not the baseline's give what the row would then show.
  TokenScores scores{1, 3, {1, 2, 3}, {}, {0, 0, 0}}, other = scores;
  other.nll[1] = std::nextafter(2.0f, 3.0f);
  Json metrics;
  add_perplexity_ratio(metrics, other, scores, 0);
  CHECK(metrics["perplexity_ratio"] != 1.0);
  for (const auto [usual, window, split] : {std::array<std::int64_t, 3>{8192, 512, 171}, {64, 512, 21}, {1, 512, 2}, {2, 512, 1}, {4, 4, 1}})
    CHECK(other_batch_split(usual, window) == split);
}

TEST_CASE("a run added to a finished sweep is timed beside the baseline again, which keeps its record") {
  Place place;
  const auto out = place.path + "/out", timings = out + "/timings.jsonl";
  const auto first = run(place.plan("sweep: {kv_store.format: [fp32, int8]}", "[throughput]"), out);
  CHECK(whole_lines(timings).size() == 2);
  const auto more = run(place.plan("sweep: {kv_store.format: [fp32, int8, fp16]}", "[throughput]"), out, true);
  REQUIRE(more.size() == 3);
  CHECK(more[0] == first[0]);
  CHECK(more[1] == first[1]);
  const auto lines = whole_lines(timings);
  REQUIRE(lines.size() == 4);
  CHECK(Json::parse(lines[3])["runs"] == Json({first[0]["hash"], more[2]["hash"]}));
  const auto times = [&](const std::string& hash) { return Json::parse(lines[3])["times"][hash]["prefill_tokens_per_s"].get<double>(); };
  const auto times0 = [&](const std::string& hash) { return Json::parse(lines[2])["times"][hash]["prefill_tokens_per_s"].get<double>(); };
  const auto hash = more[2]["hash"].get<std::string>(), base = first[0]["hash"].get<std::string>();
  CHECK(more[2]["metrics"]["prefill_speed_ratio"].get<double>() == Approx(std::sqrt(times(hash) / times(base) * times0(hash) / times0(base))));
}

TEST_CASE("finished rounds are kept: only the rest is timed when the sweep goes on") {
  Place place;
  const auto out = place.path + "/out";
  const auto sweep = "sweep: {kv_store.format: [fp32, int8]}";
  run(place.plan(sweep, "[throughput]"), out);
  const auto lines = whole_lines(out + "/timings.jsonl");
  fs::remove(out + "/records.jsonl");
  write_file_atomically(out + "/timings.jsonl", lines[0] + "\n" + lines[1].substr(0, 50));  // the second round was cut off
  Quiet progress;
  const auto resumed = run(place.plan(sweep, "[throughput]"), out, true, &progress);
  CHECK_THAT(progress.notes[0], Catch::Contains("2 runs into " + out + "; speeds first, in 2 rounds"));
  CHECK(progress.notes[1] == "speed: 1 of 2 rounds are kept; one that was cut off is measured again");
  CHECK(whole_lines(out + "/timings.jsonl").size() == 2);
  CHECK(whole_lines(out + "/timings.jsonl")[0] == lines[0]);
  const auto kept = Json::parse(lines[0])["times"][resumed[1]["hash"].get<std::string>()]["decode_tokens_per_s"];
  CHECK(resumed[1]["metrics"]["decode_tokens_per_s_values"][0] == kept);
}

TEST_CASE("sessions are kept while they fit; the others are built at each visit, and none twice at a time") {
  const auto file = ModelFile::open(kModel);
  Settings base = parse_yaml("activations: fp32", "t.yaml");
  int built = 0;
  const auto build = [&](std::size_t) { ++built; return std::make_unique<Session>(file, read_run_config(base), SessionOptions{32, 1}); };
  SessionPool one(build, 0);
  std::int64_t bytes = 0;
  for (int round = 0; round < 3; ++round) one.visit(0, [&](Session& session, bool fresh) { CHECK(fresh); bytes = session.sizes().weights_bytes; });
  CHECK(built == 3);
  CHECK(one.kept_bytes() == 0);
  built = 0;
  SessionPool two(build, 5 * bytes / 2);  // two and a cache each
  for (int round = 0; round < 3; ++round)
    for (std::size_t run = 0; run < 3; ++run) two.visit(run, [&](Session&, bool fresh) { CHECK(fresh == (round == 0 || run == 2)); });
  CHECK(built == 5);
  CHECK(two.kept_bytes() <= 5 * bytes / 2);
}

TEST_CASE("plan reads text and prompts: nothing about them is found wrong only after a run has taken its time") {
  Place place;
  const auto refusal = [&](auto change) {
    auto plan = place.plan("", "[perplexity, throughput]");
    change(plan.evaluation);
    try {
      check_plan(plan);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refusal([](auto&) {}) == "accepted");
  CHECK_THAT(refusal([](auto& e) { e.chunks = 100; }), Catch::Contains("windows") && Catch::Contains("100"));
  CHECK_THAT(refusal([](auto& e) { e.window = 200, e.chunks = 1; }), Catch::Contains("200 tokens") && Catch::Contains("context"));
  CHECK_THAT(refusal([](auto& e) { e.prefill_tokens = 10000; }), Catch::Contains("evaluation.prefill_tokens"));
  CHECK_THAT(refusal([](auto& e) { e.prefill_tokens = 128; }), Catch::Contains("evaluation.prefill_tokens: 128 tokens") && Catch::Contains("context"));
  CHECK_THAT(refusal([](auto& e) { e.prompt_count = 3; }), Catch::Contains("prompts"));
  CHECK_THAT(refusal([](auto& e) { e.protocol = "other"; }), Catch::Contains("unknown protocol"));
  write_file_atomically(place.path + "/prompts.jsonl", "{\"prompt\": 1}\n");
  CHECK_THAT(refusal([](auto&) {}), Catch::Contains("prompts.jsonl:1"));
}

TEST_CASE("tasks ask for no more than they need") {
  Place place;
  auto plan = place.plan("", "[memory]");
  plan.evaluation.text = plan.evaluation.prompts = "not there";
  const auto records = run(plan, place.path + "/out");
  CHECK(records[0]["metrics"].contains("bits_per_weight"));
  CHECK_FALSE(records[0]["metrics"].contains("perplexity"));
  CHECK_FALSE(records[0]["metrics"].contains("peak_rss_bytes"));  // nothing has run
  CHECK(run(place.plan("", "[perplexity, memory]"), place.path + "/quality")[0]["metrics"]["peak_rss_bytes"] > 0);
  const auto generation = run(place.plan("", "[generation]"), place.path + "/generation");
  CHECK_FALSE(generation[0]["metrics"].contains("decode_tokens_per_s"));
  CHECK(generation[0]["metrics"]["generated_tokens"] > 0);
  CHECK(generation[0]["outputs"][0]["tokens"].size() <= 12);
}

TEST_CASE("an error of a run names the run, and finished records stay") {
  Place place;
  const auto plan = [&](const std::string& second) {  // 10 blocks of 4 tokens do not hold a window of 64
    return place.plan("sweep: {kv_store: [contiguous, {type: paged, block_size: 4, blocks: " + second + "}]}", "[perplexity]");
  };
  CHECK_THROWS_WITH(run(plan("10"), place.path + "/out"), Catch::Contains("run kv_store=paged") && Catch::Contains("no room"));
  REQUIRE(read_records(place.path + "/out").size() == 1);
  const auto kept = read_records(place.path + "/out")[0]["environment"];
  const auto records = run(plan("20"), place.path + "/out", true);
  REQUIRE(records.size() == 2);
  CHECK(records[0]["environment"] == kept);
}

TEST_CASE("a kept record is called as the present sweep calls it") {
  Place place;
  const auto out = place.path + "/out";
  const auto first = run(place.plan("sweep: {kv_store.format: [fp32, int8]}", "[memory]"), out);
  const auto wider = run(place.plan("sweep: {kv_store.format: [fp32, int8], attention: [flash, naive]}", "[memory]"), out, true);
  REQUIRE(wider.size() == 4);
  CHECK(wider[0]["hash"] == first[0]["hash"]);  // kept, not measured again
  CHECK(wider[0]["metrics"] == first[0]["metrics"]);
  for (const auto& record : wider) CHECK(record["labels"].size() == 2);
  CHECK(wider[0]["labels"]["attention"] == "flash");
  CHECK(wider[0]["run"] == "kv_store.format=fp32, attention=flash");
}

TEST_CASE("reading back: the head of kept hidden states gives the logits of the step") {
  const auto file = ModelFile::open(kModel);
  for (const char* activations : {"fp32", "q8"}) {
    Settings base = parse_yaml(std::string("activations: ") + activations, "t.yaml");
    Session session(file, read_run_config(base), {100, 1});
    const auto seq = session.runner().open();
    std::vector<TokenRow> rows;
    for (int i = 0; i < 50; ++i) rows.push_back({.seq = seq, .token = (i * 37) % 250, .parent = i - 1, .wants_logits = true});
    const auto step = session.runner().forward(rows, true);
    const std::int64_t vocabulary = session.runner().vocabulary();
    std::vector<float> hidden(step.hidden.data, step.hidden.data + 50 * session.hidden_size()), direct(step.logits.data, step.logits.data + 50 * vocabulary);
    std::vector<float> again(7 * vocabulary);
    for (int begin = 0; begin < 49; begin += 7) {
      session.head(View<const float, 2>(hidden.data() + begin * session.hidden_size(), {7, session.hidden_size()}), View<float, 2>(again.data(), {7, vocabulary}));
      for (std::int64_t i = 0; i < 7 * vocabulary; ++i) REQUIRE(again[i] == direct[begin * vocabulary + i]);
    }
  }
}
