// patchbay quantize: what it writes is the model that the same settings make in a session, in a file that says so.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "config.h"
#include "experiment/evaluation.h"
#include "gguf_types.h"
#include "model_file.h"
#include "program.h"
#include "session.h"
#include "support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

const std::string kModel = source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf");

std::vector<std::string> command(const std::string& out, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"quantize", "--model", kModel, "--out", out, "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The negative log-likelihood of each token of one window.
std::vector<float> scores(const std::string& path, const std::string& yaml) {
  const auto file = ModelFile::open(path);
  Session session(file, read_run_config(parse_yaml(yaml, "t.yaml")), {128, 1, {}});
  const auto text = evaluation_text(session.tokenizer(), source_path("data/tiny-shakespeare/evaluation.txt"));
  ScoreOptions options;
  options.windows = 1;
  return score(scored_model(session), text, protocol_named("patchbay", 128), options).nll;
}

std::string type_of(const ModelFile& file, const char* tensor) { return std::string(file.tensor(tensor)->type_name); }

/// `patchbay quantize` by the side of the test, its messages into a file.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::string& log) {
    id_ = ::fork();
    if (id_ != 0) return;
    if (!std::freopen(log.c_str(), "w", stdout) || !std::freopen(log.c_str(), "a", stderr)) ::_exit(126);
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);  // a test in the background inherits SIGINT as ignored
    std::vector<char*> words = {const_cast<char*>("patchbay")};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    ::execv(PATCHBAY_BINARY_DIR "/bin/patchbay", words.data());
    ::_exit(127);
  }
  ~Child() { if (id_ > 0) end(SIGKILL); }
  /// Until something is so, or the program has ended.
  void wait_until(const std::function<bool()>& is_so) {
    while (!is_so() && ::waitpid(id_, &status_, WNOHANG) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void wait_for(const std::string& path) {
    wait_until([&] { return std::filesystem::exists(path); });
  }
  /// Sends a signal and returns how it ended: its exit code, or minus the signal.
  int end(int signal) {
    if (::kill(id_, signal) == 0) ::waitpid(id_, &status_, 0);
    id_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

 private:
  pid_t id_ = -1;
  int status_ = 0;
};

/// GPTQ on enough text that blocks take their time.
std::vector<std::string> slow_command(const std::string& out) {
  return command(out, {"quantizer.type=gptq", "format.type=q4_0", "calibration.text=" + source_path("data/calibration.txt"), "calibration.samples=8", "calibration.length=128"});
}
std::string block_file(const std::string& out, int layer) {
  const std::string partial = out + ".partial";
  if (!std::filesystem::exists(partial)) return partial + "/none yet";
  for (const auto& entry : std::filesystem::directory_iterator(partial))
    if (entry.is_directory()) return entry.path().string() + "/blk." + std::to_string(layer) + ".bin";
  return partial + "/none yet";
}

/// The same with the bits of each layer chosen by what it minds.
std::vector<std::string> sensitivity_command(const std::string& out) {
  std::vector<std::string> arguments = slow_command(out);
  arguments.push_back("bits_by_sensitivity={budget: 6, candidates: [q4_0, q8_0], measure: kl, per: layer}");
  return arguments;
}
/// Where the losses are kept that the scan found; "": nowhere yet.
std::string losses_file(const std::string& out) {
  if (!std::filesystem::exists(out + ".partial")) return "";
  for (const auto& entry : std::filesystem::directory_iterator(out + ".partial"))
    if (entry.path().extension() == ".json") return entry.path().string();
  return "";
}

}  // namespace

TEST_CASE("quantize: killed at any moment, the same command goes on, and the file is the same to the byte; before that there is none") {
  const TemporaryFolder folder;
  const std::string expected = folder / "expected.gguf", out = folder / "out.gguf", log = folder / "log";
  REQUIRE(run_program(slow_command(expected)).code == 0);
  std::mt19937 random(20251130);
  for (int round = 0; round < 6; ++round) {
    const int layer = static_cast<int>(random() % 4);
    Child child(slow_command(out), log);
    while (!std::filesystem::exists(block_file(out, 0)) && !std::filesystem::exists(out)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    child.wait_for(block_file(out, std::min(layer, round)));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    if (child.end(SIGKILL) != -SIGKILL) break;  // it was done
    CHECK_FALSE(std::filesystem::exists(out));
  }
  std::filesystem::remove(out);
  REQUIRE(run_program(slow_command(out)).code == 0);
  CHECK(read_file(out) == read_file(expected));
  CHECK_FALSE(std::filesystem::exists(out + ".partial"));
}

TEST_CASE("quantize: killed while sensitivities are measured, and behind that, it goes on to the same bits and the same bytes") {
  const TemporaryFolder folder;
  const std::string expected = folder / "expected.gguf", out = folder / "out.gguf", log = folder / "log";
  const auto began = std::chrono::steady_clock::now();
  REQUIRE(run_program(sensitivity_command(expected)).code == 0);
  const auto whole = std::chrono::steady_clock::now() - began;
  const auto written = ModelFile::open(expected);
  std::set<std::string> types;
  for (const FileTensor& tensor : written->tensors())
    if (tensor.name.starts_with("blk.") && tensor.shape.size() == 2) types.insert(std::string(tensor.type_name));
  REQUIRE(types == std::set<std::string>{"Q4_0", "Q8_0"});
  int while_measuring = 0;
  for (const int percent : {15, 30}) {  // half of its time it measures
    Child child(sensitivity_command(out), log);
    std::this_thread::sleep_for(whole * percent / 100);
    while_measuring += child.end(SIGKILL) == -SIGKILL && losses_file(out).empty();
    std::filesystem::remove_all(out + ".partial");  // what a later kill left
    std::filesystem::remove(out);
  }
  CHECK(while_measuring > 0);
  Child measured(sensitivity_command(out), log);
  measured.wait_until([&] { return !losses_file(out).empty(); });
  REQUIRE(measured.end(SIGKILL) == -SIGKILL);
  const std::string losses = losses_file(out);
  const auto made = std::filesystem::last_write_time(losses);
  Child walking(sensitivity_command(out), log);
  walking.wait_until([&] { return std::filesystem::exists(block_file(out, 0)); });
  REQUIRE(walking.end(SIGKILL) == -SIGKILL);
  CHECK(std::filesystem::last_write_time(losses) == made);  // and not measured again
  CHECK_FALSE(std::filesystem::exists(out));
  REQUIRE(run_program(sensitivity_command(out)).code == 0);
  CHECK((read_file(out) == read_file(expected)));
  CHECK_FALSE(std::filesystem::exists(out + ".partial"));
}

TEST_CASE("quantize: Ctrl-C ends it after the step in work, says how to go on, and leaves no file that is half written") {
  const TemporaryFolder folder;
  const std::string out = folder / "out.gguf", log = folder / "log";
  Child child(slow_command(out), log);
  while (!std::filesystem::exists(block_file(out, 0))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(child.end(SIGINT) == 128 + SIGINT);
  const std::string said = read_file(log);
  CHECK_THAT(said, Contains("stopping after this step") && Contains("out.gguf.partial") && Contains("the same command goes on from there"));
  CHECK_FALSE(std::filesystem::exists(out));
  const auto result = run_program(slow_command(out));
  REQUIRE(result.code == 0);
  CHECK(std::filesystem::exists(out));
  CHECK_FALSE(std::filesystem::exists(out + ".partial"));
}

TEST_CASE("quantize: a file that is there stays unless --force is said, and a place that cannot be written is refused at once") {
  const TemporaryFolder folder;
  const std::string out = folder / "m.gguf";
  std::ofstream(out) << "mine";
  auto arguments = command(out, {"format.type=q4_0"});
  const auto refused = run_program(arguments);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Contains("exists") && Contains("--force"));
  CHECK(read_file(out) == "mine");
  arguments.push_back("--force");
  CHECK(run_program(arguments).code == 0);
  CHECK(ModelFile::open(out)->tensors().size() == ModelFile::open(kModel)->tensors().size());
  for (const std::string& place : {std::string("/proc/m.gguf"), folder / "missing/m.gguf", kModel}) {
    const auto result = run_program(command(place, {"quantizer.type=gptq", "format.type=q4_0", "calibration.text=nowhere.txt"}));
    CHECK(result.code == 1);
    CHECK_THAT(result.err, !Contains("more than") && (Contains("m.gguf") || Contains("nowhere.txt") || Contains("belongs to the model")));
  }
}

TEST_CASE("quantize: without a quantizer GGUF's blocks get searched scales; keys may begin with weights; mixes have their names; types are listed") {
  const TemporaryFolder folder;
  const std::string a = folder / "a.gguf", b = folder / "b.gguf";
  const auto first = run_program(command(a, {"format.type=q3_k_m"})), second = run_program(command(b, {"weights.quantizer.type=scale_search", "weights.format.type=q3_k_m"}));
  REQUIRE(first.code == 0);
  REQUIRE(second.code == 0);
  CHECK(read_file(a) == read_file(b));
  const auto json = nlohmann::json::parse(first.out);
  CHECK(json["weights"]["token_embd"][0]["format"] == "q6_k");
  CHECK(json["weights"]["blk.*.attn_output"] == nlohmann::json::parse(R"([{"format": "q4_k", "bits_per_weight": 4.5}])"));
  const auto shown = run_program({"quantize", "--model", kModel, "--out", a, "--force", "format.type=q3_k_m"});
  CHECK_THAT(shown.out, Contains("q3_k") && Contains("4.500") && Contains("a.gguf: "));
}

TEST_CASE("quantize: calibration that nothing asks for is refused; the quantizer that is taken without being named has its parameters") {
  const TemporaryFolder folder;
  const auto result = run_program(command(folder / "a.gguf", {"format.type=q4_0", "calibration.text=nowhere.txt"}));
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("nothing asks for it") && Contains("quantizer.importance=calibration"));
  CHECK(run_program(command(folder / "b.gguf", {"format.type=q4_0", "quantizer.importance=calibration", "calibration.samples=2", "calibration.length=32"})).code == 0);
}

TEST_CASE("quantize: a file in each type of GGUF computes what its settings compute in a session, bit for bit") {
  const TemporaryFolder folder;
  for (const std::string format : {"q8_0", "q4_0", "q5_1", "q4_k", "q6_k", "iq4_nl", "fp16", "bf16", "fp32"}) {
    INFO(format);
    const std::string out = folder / format + ".gguf";
    const auto result = run_program(command(out, {"quantizer.type=rtn", "format.type=" + format, "rules=[{match: blk.1.ffn_down, format: {type: q8_0}}]"}));
    REQUIRE(result.code == 0);
    const auto written = ModelFile::open(out);
    check_model(*written);
    const auto* q = written->tensor("blk.0.attn_q.weight");
    REQUIRE(std::string(q->format) == format);
    REQUIRE(type_of(*written, "blk.1.ffn_down.weight") == "Q8_0");
    REQUIRE(type_of(*written, "token_embd.weight") == "F16");
    REQUIRE(scores(out, "activations: fp32") == scores(kModel, "activations: fp32\nweights: {quantizer: rtn, format: " + format +
                                                                  ", rules: [{match: blk.1.ffn_down, format: q8_0}]}"));
  }
}

TEST_CASE("quantize: metadata and tokenizer stay, and the file says what it is") {
  const TemporaryFolder folder;
  const std::string out = folder / "m.gguf";
  const auto result = run_program(command(out, {"format.type=q4_0", "targets=all"}));
  REQUIRE(result.code == 0);
  const auto before = ModelFile::open(kModel), after = ModelFile::open(out);
  for (const MetaEntry& entry : before->metadata()) {
    const MetaEntry* copy = after->find(entry.key);
    INFO(entry.key);
    REQUIRE(copy != nullptr);
    if (entry.key == "general.file_type" || entry.key == "general.quantization_version") continue;
    REQUIRE((copy->type == entry.type && copy->array == entry.array && copy->value == entry.value));
  }
  REQUIRE(after->integer("general.file_type") == 2);
  REQUIRE(after->integer("general.quantization_version") == 2);
  REQUIRE_THAT(std::string(after->string("patchbay.weights")), Contains("\"q4_0\""));
  REQUIRE(type_of(*after, "token_embd.weight") == "Q4_0");
  REQUIRE(type_of(*after, "blk.0.attn_norm.weight") == "F32");
  const auto json = nlohmann::json::parse(result.out);
  REQUIRE(json["tensors"] == before->tensors().size());
  REQUIRE(json["quantized_tensors"] == 4 * 7 + 1);
}

TEST_CASE("quantize: with calibration the file is the session's model too, and a stopped run goes on") {
  const TemporaryFolder folder;
  const std::string calibration = "{text: '" + source_path("data/calibration.txt") + "', samples: 4, length: 32}", out = folder / "g.gguf";
  const std::vector<std::string> settings = {"quantizer.type=gptq", "format.type=q4_0", "calibration=" + calibration};
  const auto result = run_program(command(out, settings));
  INFO(result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  REQUIRE(json["calibration"]["tokens"] == 128);
  REQUIRE(json["notes"].contains("blk.3.ffn_down.weight"));
  REQUIRE_FALSE(std::filesystem::exists(out + ".partial"));
  REQUIRE(scores(out, "activations: fp32") == scores(kModel, "activations: fp32\nweights: {quantizer: gptq, format: q4_0, calibration: " + calibration + "}"));
}

TEST_CASE("quantize: what cannot be written is refused before any work") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& out, std::vector<std::string> settings) {
    const auto result = run_program(command(out, std::move(settings)));
    CHECK(result.code == 1);
    CHECK(std::filesystem::is_empty(folder.path));
    return result.err;
  };
  CHECK_THAT(refused(folder / "a.gguf", {"format={type: int_grouped, group_size: 32}"}), Contains("GGUF has no type for format int_grouped/b4/g32") && Contains("q4_k") && Contains("or write a folder"));
  for (const std::string format : {"nf4", "{type: fp8, variant: e5m2}", "{type: int_grouped, bits: 5}"})
    CHECK_THAT(refused(folder / "a.gguf", {"format=" + format}), Contains("GGUF has no type") && Contains("in an experiment only (patchbay run)") && !Contains("write a folder"));
  CHECK_THAT(refused(folder / "a.bin", {"format.type=q4_0"}), Contains(".gguf"));
  CHECK_THAT(refused(folder / "a.gguf", {"quantizer.type=gptq", "format.type=q4_0", "calibration.text=nowhere.txt"}), Contains("nowhere.txt"));
  CHECK_THAT(refused(folder / "a.gguf", {"format.type=q9_9"}), Contains("q9_9"));
}

TEST_CASE("quantize: the last lines say on what was calibrated and what to mind, and name each type once") {
  const TemporaryFolder folder;
  const auto result = run_program({"quantize", "--quiet", "--model", kModel, "--out", folder / "a.gguf", "quantizer.type=gptq", "format.type=q4_0",
                                   "calibration.text=" + source_path("data/calibration.txt"), "calibration.samples=1", "calibration.length=2000"});
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("calibration.txt, 1 sample, 512 tokens in all\n") &&
                             Contains("warning: calibration: 1 sample, 512 tokens in all, where 1 of 2000 tokens are asked for") &&
                             Contains("none can be longer than the model's context of 512 tokens") &&
                             Contains("warning: calibration: 4 matrices have more columns (up to 768) than there are tokens (512)"));
  const auto by_shape = run_program({"quantize", "--model", kModel, "--out", folder / "f", "format.type=w8a8"});
  REQUIRE(by_shape.code == 0);
  const auto first = by_shape.out.find("w8a8");
  REQUIRE(first != std::string::npos);
  CHECK(by_shape.out.find("w8a8", first + 1) == std::string::npos);
  CHECK_THAT(by_shape.out, Contains(" 28 ") && Contains(", by shape"));
}

TEST_CASE("quantize: .GGUF is an ending as .gguf is, and names that nothing can be written under are refused at once") {
  const TemporaryFolder folder;
  REQUIRE(run_program(command(folder / "A.GGUF", {"format.type=q4_0"})).code == 0);
  CHECK(ModelFile::open(folder / "A.GGUF")->form() == FileForm::gguf);
  std::ofstream(folder / "file") << "mine";
  std::ofstream(folder / "b.gguf.partial") << "mine";
  const auto refusal = [&](const std::string& out, const std::string& quantizer) {
    const auto result = run_program(command(out, {"quantizer.type=" + quantizer, "format.type=q4_0", "calibration.samples=1", "calibration.length=8"}));
    CHECK(result.code == 1);
    return result.err;
  };
  CHECK_THAT(refusal(folder / "file/x.gguf", "gptq"), Contains("file: is a file and no folder: x.gguf is to be written there"));
  CHECK_THAT(refusal(folder / "b.gguf", "gptq"), Contains("b.gguf.partial: is a file, and finished blocks"));
  CHECK_THAT(refusal(folder / ".gguf", "gptq"), Contains("is an ending without a name; allowed: NAME.gguf"));
  REQUIRE(run_program(command(folder / "b.gguf", {"format.type=q4_0"})).code == 0);  // keeps no blocks
  CHECK(read_file(folder / "b.gguf.partial") == "mine");
}

TEST_CASE("quantize: what is mistyped is answered in its own words") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::vector<std::string>& settings) {
    const auto result = run_program(command(folder / "a.gguf", settings));
    CHECK(result.code == 1);
    return result.err;
  };
  CHECK_THAT(refusal({"format.type"}), Contains("format.type is no setting; allowed: key=value with a key of weights, such as format.type=q4_k_m"));
  CHECK_THAT(refusal({"format.type=Q4_K_M"}), Contains("q3_k_l, ") && Contains("did you mean q4_k_m?"));
  CHECK_THAT(refusal({"format.type=Q4_0"}), Contains("did you mean q4_0?"));
  const std::vector<std::string> gptq = {"quantizer.type=gptq", "format.type=q4_0"};
  CHECK_THAT(refusal({gptq[0], gptq[1], "calibration.text=" + folder.path}), Contains("calibration.text: ") && Contains(" is a folder; allowed: a file of text"));
  CHECK_THAT(refusal({gptq[0], gptq[1], "calibration.prompts=" + source_path("data/evaluation.txt")}), Contains("evaluation.txt:1: is no JSON object; allowed: lines such as {"));
  const auto help = run_program({"quantize", "--help"}).out;
  CHECK_THAT(help, Contains("format.type=q4_k_m") && Contains("transforms") && Contains("rules=[") && !Contains("kv_store"));
}

TEST_CASE("inspect shows the settings that quantize wrote") {
  const TemporaryFolder folder;
  const std::string out = folder / "a.gguf";
  REQUIRE(run_program(command(out, {"quantizer.type=rtn", "format.type=q4_0", "rules=[{match: blk.1.ffn_down, format: {type: q8_0}}]"})).code == 0);
  const auto json = nlohmann::json::parse(run_program({"inspect", out, "--json"}).out);
  CHECK(json["quantization"]["weights"]["quantizer"]["type"] == "rtn");
  CHECK(json["quantization"]["weights"]["rules"][0]["match"] == "blk.1.ffn_down");
  const auto shown = run_program({"inspect", out}).out;
  for (const std::string line : {"quantisation\n", "  format.type ", "q4_0\n", "  quantizer.type ", "rtn\n", "  rules[0] ", "blk.1.ffn_down"}) CHECK_THAT(shown, Contains(line));
  CHECK_FALSE(nlohmann::json::parse(run_program({"inspect", kModel, "--json"}).out).contains("quantization"));
}

TEST_CASE("inspect and plan name the candidates of bits_by_sensitivity, at the budget's bits, and say that a scan decides") {
  const std::string sensitivity = "{budget: 4.6, candidates: [q4_0, q8_0]}";
  const auto result = run_program({"inspect", kModel, "--tensors", "weights.quantizer=gptq", "weights.format.type=q4_0", "weights.bits_by_sensitivity=" + sensitivity});
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("runs as q4_0 or q8_0, 4.600 bits") && !Contains("runs as q4_0, "));
  CHECK_THAT(result.err, Contains("note: bits_by_sensitivity: a scan that comes first decides which of q4_0 or q8_0 each matrix gets"));
  const auto plan = run_program({"plan", source_path("configs/ablations/sensitivity.yaml")});
  REQUIRE(plan.code == 0);
  CHECK_THAT(plan.err, Contains("note: run ") && Contains("a scan that comes first decides"));
}
