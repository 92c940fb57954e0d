// Kernels chosen from YAML, on the emulator: each choice gives the host's logits within tolerance, and the record names it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/kernel_trial.h"
#include "gpu/profiler.h"
#include "model_support.h"
#include "patchbay/gpu_linear.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

/// Two layers of 32 columns, weights in fp32: the emulator has many sessions to run.
std::shared_ptr<const ModelFile> tiny_file() {
  static const auto file = ModelFile::open(source_path("tests/golden/architectures/qwen3.gguf"));
  return file;
}
std::unique_ptr<Session> session_of(const std::string& settings) {
  return std::make_unique<Session>(tiny_file(), read_run_config(parse_yaml(settings, "test")), SessionOptions{16, 2});
}
std::unique_ptr<Session> simt(const std::string& settings = "") { return session_of("device: simt\n" + settings); }
std::unique_ptr<Session> simt_with(const std::string& kernels) { return simt("backend: {type: simt, kernels: {" + kernels + "}}"); }

constexpr double kTolerance = 0.01;  // of the largest logit, as in simt_test.cpp
const std::vector<Token> kText = {11, 40, 7, 33, 52, 20};

using Logits = std::vector<std::vector<float>>;

/// Of a prefill, and of two tokens decoded after it.
Logits logits_of(Session& s) {
  ModelRunner& runner = s.runner();
  const SeqId seq = runner.open();
  Logits all = {copied(runner.forward(chain(seq, kText, false)).logits[0])};
  commit_all(runner, seq, kText.size());
  for (const Token token : {3, 9}) {
    const std::vector<TokenRow> row = {{seq, token, -1, true}};
    all.push_back(copied(runner.forward(row).logits[0]));
    commit_all(runner, seq, 1);
  }
  runner.close(seq);
  return all;
}
/// In shares of the largest logit of b.
double distance(const Logits& a, const Logits& b) {
  double furthest = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    furthest = std::max(furthest, test::distance(a[i], b[i]));
    for (const float logit : b[i]) largest = std::max(largest, std::abs(double{logit}));
  }
  return furthest / largest;
}
const Logits& host_logits() {
  static const Logits logits = logits_of(*session_of("activations: fp32"));
  return logits;
}
std::string weights_path(const Session& s) { return s.paths().at("weights"); }

}  // namespace

TEST_CASE("weights.kernel: each kernel of weights that stay as they are stored") {
  for (const char* kernel : {"naive", "tiled", "vectorised", "tensor_core", "gemv", "{prefill: tiled, decode: naive}"}) {
    INFO(kernel);
    const auto s = simt("weights: {kernel: " + std::string(kernel) + "}");
    CHECK(distance(logits_of(*s), host_logits()) < kTolerance);
    const std::string name = kernel, asked = name == "gemv" ? "tensor_core+gemv" : name[0] == '{' ? "tiled+naive" : name;
    CHECK_THAT(weights_path(*s), Contains("fp32:" + asked + "/simt"));
  }
  CHECK_THAT(weights_path(*simt("weights: {kernel: {decode: naive}}")), Contains("fp32:tensor_core+naive/simt"));
  CHECK_THAT(weights_path(*session_of("weights: {kernel: decode}")), Contains("fp32:decode/") && !Contains("direct"));
}

TEST_CASE("weights.kernel: quantised weights take it too, unless their format names another; layers on the host have their own") {
  const std::string kept = "weights: {kernel: naive, quantizer: rtn, format: ";
  const std::string groups = "type: int_grouped, group_size: 16";
  CHECK_THAT(weights_path(*simt(kept + "{" + groups + "}}")), Contains("int_grouped/b4/g16:naive/simt") && Contains("fp32:naive/simt"));
  CHECK_THAT(weights_path(*simt(kept + "{" + groups + ", kernel: tensor_core}}")), Contains("int_grouped/b4/g16:tensor_core/simt") && Contains("fp32:naive/simt"));
  CHECK_THAT(weights_path(*simt("weights: {kernel: tiled, quantizer: rtn, format: {" + groups + "}}")),
             Contains("int_grouped/b4/g16:tensor_core+gemv/simt") && Contains("fp32:tiled/simt"));  // integer groups have no tiled kernel
  const auto split = simt("gpu_layers: 1\nactivations: fp32\nweights: {kernel: tiled}");
  CHECK_THAT(weights_path(*split), Contains("fp32:tiled/simt") && Contains("fp32:direct/"));
  CHECK(distance(logits_of(*split), host_logits()) < kTolerance);
  CHECK_THAT(weights_path(*simt("gpu_layers: 1\nweights: {kernel: decode}")), Contains("fp32:tensor_core+gemv/simt") && Contains("fp32:decode/"));
}

TEST_CASE("a model that is split: kernels that are named are the device's, the host keeps its own") {
  const std::string groups = "weights: {quantizer: rtn, format: {type: int_grouped, group_size: 16, kernel: {prefill: naive, decode: gemv}}}";
  const auto s = simt("gpu_layers: 1\nactivations: fp32\nattention: {type: flash, kernel: tiled}\n" + groups);
  CHECK_THAT(s->paths().at("attention"), Contains("layers 1 to 1: flash:tiled") && !Contains("layers 0 to 0: flash:tiled"));
  CHECK_THAT(weights_path(*s), Contains("int_grouped/b4/g16:naive+gemv/simt") && Contains("int_grouped/b4/g16:decode/"));
  CHECK(distance(logits_of(*s), logits_of(*session_of("activations: fp32\n" + groups.substr(0, groups.find(", kernel")) + "}}"))) < kTolerance);
  const auto same = simt("gpu_layers: 1\nactivations: fp32\ndeterministic: true");
  CHECK_THAT(same->paths().at("attention"), Contains("layers 1 to 1: flash:flash"));
  CHECK(distance(logits_of(*same), host_logits()) < kTolerance);
}

TEST_CASE("weights.kernel: what no format has is refused, with what there is") {
  const auto refused = [](const std::string& settings) {
    return message_of([&] { check_run(*tiny_file(), read_run_config(parse_yaml(settings, "a.yaml"))); });
  };
  CHECK_THAT(refused("device: simt\nweights: {kernel: gevm}"),
             Contains("a.yaml:2: weights.kernel: none of the weights' formats (fp32) has a kernel gevm on device simt") &&
                 Contains("naive, tiled, vectorised") && Contains("did you mean gemv?") && !Contains("direct"));
  CHECK_THAT(refused("device: simt\nweights: {kernel: direct}"), Contains("has a kernel direct on device simt"));
  if (!finds_cublas())  // where it runs it may be asked for
    for (const char* kernel : {"cublas", "{prefill: cublas}"})
      CHECK_THAT(refused(std::string("device: simt\nweights: {kernel: ") + kernel + "}"), Contains("has a kernel cublas") && Contains("naive, tiled, vectorised, tensor_core"));
  CHECK_THAT(refused("weights: {kernel: tiled}"), Contains("on device cpu; allowed: decode, direct"));
  CHECK_THAT(refused("device: simt\nweights: {kernel: {prefill: gemv}}"), Contains("a kernel gemv for prefill") && !Contains("gemv,"));
  CHECK_THAT(refused("device: simt\nweights: {kernel: {prefil: gemv}}"), Contains("did you mean prefill?"));
  CHECK_THAT(refused("device: simt\nweights: {kernel: [gemv]}"), Contains("weights.kernel"));
  CHECK_THAT(message_of([] { simt("deterministic: true\nweights: {kernel: gemv}"); }), Contains("weights.kernel: deterministic: true"));
  CHECK_THAT(weights_path(*simt("deterministic: true\nweights: {kernel: tiled}")), Contains("fp32:tiled/simt"));
}

TEST_CASE("a plan refuses the shape that a kernel cannot take, with the tensor's name or the attention's") {
  const auto refused = [](const std::string& settings) {
    return message_of([&] { check_run(*tiny_file(), read_run_config(parse_yaml(settings, "a.yaml"))); });
  };
  const auto groups = [](int size, const std::string& kernel) {
    return "device: simt\nweights: {quantizer: rtn, format: {type: int_grouped, group_size: " + std::to_string(size) + ", kernel: " + kernel + "}}";
  };
  CHECK_THAT(refused(groups(8, "gemv")), Contains("tensor blk.0.attn_q") && Contains("these groups have 8"));
  CHECK_THAT(refused(groups(8, "{prefill: tensor_core, decode: naive}")), Contains("these groups have 8"));
  const auto taken = [](const std::string& settings) { CHECK_NOTHROW(check_run(*tiny_file(), read_run_config(parse_yaml(settings, "a.yaml")))); };
  taken(groups(8, "naive"));
  taken(groups(16, "gemv"));
  for (const char* settings : {"device: simt", "device: simt\nkv_store: {type: paged, block_size: 16, format: int8}", "device: simt\ngpu_layers: 1\nactivations: fp32"})
    taken(settings);
  // Heads of 12 values: no attention kernel of 8 at a time takes them.
  ModelSpec spec = read_model_spec(*tiny_file());
  spec.head_size = 12;
  const auto of_heads = [&](const std::string& kernel) {
    const RunConfig config = read_run_config(parse_yaml("device: simt\nattention: {type: flash, kernel: " + kernel + "}", "a.yaml"));
    StageSet stages(spec, config);
    try_kernels(*tiny_file(), spec, {}, config, stages);
  };
  CHECK_THAT(message_of([&] { of_heads("flash"); }), Contains("attention flash on device simt") && Contains("kernel flash cannot take heads of 12 values"));
  CHECK_THAT(message_of([&] { of_heads("{prefill: tiled, decode: split_kv}"); }), Contains("kernel split_kv cannot take heads of 12 values"));
  CHECK_NOTHROW(of_heads("tiled"));
}

TEST_CASE("backend.kernels: each kernel of each dense operation that a model runs") {
  for (const char* kernels : {"rms_norm: naive", "rms_norm: block", "rope: naive", "write_kv: naive", "gated: naive", "add: naive", "take_rows: naive"}) {
    INFO(kernels);
    const auto s = simt_with(kernels);
    CHECK(distance(logits_of(*s), host_logits()) < kTolerance);
    const auto written = nlohmann::json::parse(to_json(effective_settings(s->config())));
    const std::string pair = kernels, operation = pair.substr(0, pair.find(':')), kernel = pair.substr(pair.find(' ') + 1);
    CHECK(written["backend"]["kernels"][operation] == kernel);
    CHECK(written["backend"]["kernels"]["sample"] == "fast");
    // A part's own kernel runs where the fused one would not.
    CHECK((written["backend"]["kernels"]["add_rms_norm"] == "separate") == (operation == "rms_norm" || operation == "add"));
    CHECK((written["backend"]["kernels"]["rope_write_kv"] == "separate") == (operation == "rope" || operation == "write_kv"));
  }
}

TEST_CASE("backend.kernels: the definitions run other architectures, and draw the same tokens") {
  const std::string naive = "device: simt\nattention: naive\nbackend: {type: simt, kernels: {rms_norm: naive, layer_norm: naive, rope: naive, write_kv: naive, gated: naive, "
                            "add: naive, scale: naive, soft_cap: naive, take_rows: naive, add_rows: naive, softmax: naive, sample: naive}}";
  for (const char* model : {"gpt2", "gemma2", "qwen2moe"}) {  // LayerNorm and a table of positions; scaled and capped; experts
    INFO(model);
    const auto file = ModelFile::open(source_path("tests/golden/architectures/" + std::string(model) + ".gguf"));
    const auto logits = [&](const std::string& settings) {
      Session s(file, read_run_config(parse_yaml(settings, "test")), SessionOptions{8, 1});
      return last_logits(s.runner(), {1, 5, 3, 7, 2});
    };
    const auto host = logits("activations: fp32\nattention: naive");
    const float largest = std::abs(*std::ranges::max_element(host, {}, [](float logit) { return std::abs(logit); }));
    CHECK(test::distance(logits(naive), host) < 0.01 * largest);
  }
  const auto drawn = [](const std::string& sample) {
    const auto s = simt("decoder: sampling\nprocessors: [{type: temperature, value: 0.9}, {type: top_k, k: 20}, {type: top_p, p: 0.9}]\nbackend: {type: simt, kernels: {sample: " + sample + "}}");
    CHECK(s->paths().at("choice_of_tokens") == "on the device");
    GenerationRequest made = request(*s, kText, "sampling", 6);
    made.processors = s->make_processors();
    made.seed = 3;
    return generate(s->runner(), {&made, 1})[0].tokens;
  };
  CHECK(drawn("naive") == drawn("fast"));
}

TEST_CASE("backend.kernels: fused operations give the same bits, with fewer launches") {
  const std::string parts = "add_rms_norm: separate, rope_write_kv: separate";
  for (const char* store : {"contiguous", "{type: paged, block_size: 4, format: int8}", "{type: paged, block_size: 4, format: fp8_e4m3}"}) {
    INFO(store);
    const std::string with_store = "\nkv_store: " + std::string(store);
    CHECK(logits_of(*simt("backend: {type: simt, kernels: {" + parts + "}}" + with_store)) == logits_of(*simt(with_store)));
  }
  const auto launches = [](const std::string& kernels) {
    const auto s = simt("backend: {type: simt, checked: true, kernels: {" + kernels + "}}");
    gpu::Profiler profiler;
    last_logits(s->runner(), {kText[0]});
    return std::ssize(profiler.launches());
  };
  const int layers = 2;
  // Per layer: the sum after attention and, but for the last, the one after the feed-forward part; of RoPE's three launches one stays.
  CHECK(launches(parts) - launches("add_rms_norm: fused, rope_write_kv: fused") == layers + (layers - 1) + 2 * layers);
}

TEST_CASE("inputs in 8 bits: rounded alone or in one launch with the norm before them, the same bits, near the host's") {
  const std::string separate = "backend: {type: simt, kernels: {add_rms_norm_quantize: separate}}";
  for (const auto& [format, path] : {std::pair{"w8a8", "w8a8/channel/a-token:tensor_core+gemv/simt"},
                                     {"{type: fp8, activations: token}", "fp8/e4m3/channel/a-token:tensor_core+gemv/simt"},
                                     {"{type: fp8, variant: e5m2, scales: group, group_size: 16, activations: tensor}", "fp8/e5m2/g16/a-tensor:tensor_core+gemv/simt"},
                                     {"fp8", "fp8/e4m3/channel:tensor_core+gemv/simt"}}) {
    INFO(format);
    const std::string weights = "weights: {quantizer: rtn, format: " + std::string(format) + "}\n";
    const auto s = simt(weights);
    const Logits logits = logits_of(*s);
    CHECK_THAT(weights_path(*s), Contains(path));
    CHECK(logits_of(*simt(weights + separate)) == logits);
    // A rounded input may fall to either side (that products are exact is for the conformance suite): a wrong scale would show as 1.
    CHECK(distance(logits, logits_of(*session_of("activations: fp32\n" + weights))) < 0.15);
  }
  const auto launches = [](const std::string& kernel) {
    const auto s = simt("weights: {quantizer: rtn, format: w8a8}\nbackend: {type: simt, checked: true, kernels: {add_rms_norm_quantize: " + kernel + "}}");
    gpu::Profiler profiler;
    last_logits(s->runner(), {kText[0]});
    return std::ssize(profiler.launches());
  };
  const int layers = 2;  // each has a norm before gate and up, and all but the first one that follows the block before
  CHECK(launches("separate") - launches("fused") == layers + (layers - 1));
}

TEST_CASE("inputs in 8 bits: what a GPU lacks, and what deterministic refuses") {
  const auto on_sm_80 = [](const std::string& format) { return simt("backend: {type: simt, architecture: sm_80}\nweights: {quantizer: rtn, format: " + format + "}"); };
  CHECK_THAT(weights_path(*on_sm_80("{type: fp8, activations: token}")), Contains(":dequantised+gemv/simt"));
  const auto asked = on_sm_80("{type: fp8, activations: token, kernel: tensor_core}");
  CHECK_THAT(message_of([&] { logits_of(*asked); }), Contains("fp8: kernel tensor_core") && Contains("sm_89") && Contains("dequantised"));
  for (const char* device : {"cpu", "simt"}) {
    const std::string common = "deterministic: true\ndevice: " + std::string(device) + "\nweights: {quantizer: rtn, format: {type: w8a8, activations: ";
    CHECK_THAT(message_of([&] { session_of(common + "tensor}}"); }),
               Contains("blk.0.attn_q") && Contains("deterministic: true") && Contains("activations: token or static"));
    CHECK_NOTHROW(session_of(common + "token}}"));
  }
}

TEST_CASE("backend.kernels: what cannot be chosen is refused, with what can") {
  const auto refused = [](const std::string& kernels) { return message_of([&] { simt_with(kernels); }); };
  CHECK_THAT(refused("rms_norm: blck"), Contains("backend.kernels.rms_norm: unknown kernel blck; allowed: naive, block, fast; did you mean block?"));
  CHECK_THAT(refused("rms_nrm: fast"), Contains("backend.kernels.rms_nrm: unknown parameter") && Contains("did you mean rms_norm?"));
  CHECK_THAT(refused("rope: {prefill: naive}"), Contains("kernels.rope") && Contains("one name"));
  CHECK_THAT(refused("rope: naive, rope_write_kv: fused"), Contains("kernels.rope_write_kv") && Contains("take separate"));
  CHECK_THAT(message_of([] { simt("backend: {type: simt, kernels: fast}"); }), Contains("backend.kernels: one value where a map is expected"));
  CHECK_THAT(message_of([] { simt("attention: {type: flash, kernel: avx2}"); }),
             Contains("kernel avx2 is of backend cpu") && Contains("tiled, flash, split_kv") && !Contains("plain"));
  CHECK_THAT(message_of([] { session_of("attention: {type: naive, kernel: block}"); }), Contains("kernel block is of backend cuda") && Contains("allowed: plain"));
}

TEST_CASE("8-bit floats in the cache: the host's logits, on the host and on the device, in both attentions") {
  for (const auto& [format, tolerance] : {std::pair{"fp8_e4m3", 0.15}, {"fp8_e5m2", 0.3}}) {  // measured: 0.086 and 0.20
    const std::string store = "\nkv_store: {type: paged, block_size: 4, format: " + std::string(format) + "}";
    const Logits on_host = logits_of(*session_of("activations: fp32\nattention: naive" + store));
    INFO(format << ", from fp32: " << distance(on_host, host_logits()));
    CHECK(distance(on_host, host_logits()) < tolerance);
    CHECK(distance(on_host, host_logits()) > kTolerance);
    const auto gathered = session_of("activations: fp32" + store);
    CHECK_THAT(gathered->paths().at("kv_cache"), Contains("gathered to fp32"));
    CHECK(distance(logits_of(*gathered), on_host) < 1e-3);
    for (const char* attention : {"naive", "flash"}) {
      const auto s = simt("attention: " + std::string(attention) + store);
      INFO(attention << ": " << distance(logits_of(*s), on_host));
      CHECK(s->paths().at("kv_cache") == std::string(format) + ", read natively");
      // More than kTolerance: a value that fp16 moves over the middle between two steps is stored as the other.
      CHECK(distance(logits_of(*s), on_host) < 0.04);  // measured: 0.018
    }
  }
}

TEST_CASE("rows of a quantised embedding are decoded on the device, where it is the head and where it is not") {
  const auto tied = ModelFile::open(source_path("tests/golden/architectures/llama_bias.gguf"));
  const std::string formats[] = {"q8_0", "{type: int_grouped, bits: 4, group_size: 32}", "{type: int_grouped, bits: 3, group_size: 8}"};
  for (const std::string& format : formats) {
    INFO(format);
    const std::string rule = "weights: {rules: [{match: token_embd, quantizer: rtn, format: " + format + "}]}\n";
    const auto s = simt(rule);
    CHECK(distance(logits_of(*s), logits_of(*session_of("activations: fp32\n" + rule))) < kTolerance);
    CHECK_THAT(weights_path(*s), Contains(":rows taken on the device x 1"));
    if (&format == &formats[2]) continue;  // groups that the kernels of products cannot take
    const auto of_tied = [&](const std::string& settings) {
      Session session(tied, read_run_config(parse_yaml(settings + rule, "test")), SessionOptions{16, 2});
      return logits_of(session);
    };
    CHECK(distance(of_tied("device: simt\n"), of_tied("activations: fp32\n")) < kTolerance);
  }
}
