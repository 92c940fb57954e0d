// bench_gpu: how fast the kernels are on a GPU (or, for a dry run, on the emulator), as JSON. scripts/gpu_check.sh runs it; docs/measurements/gpu.md
// says what the figures mean.
//
//   bench_gpu --out kernels.json [--backend cuda|simt] [--quick] [--seconds 90] [--only matmul/fp16/tensor_core]
//   bench_gpu --out case.json --once TOKENS,ROWS,COLS,CONTEXT --only attention/flash/split_kv    (one launch, untimed: for ncu)
//
// Each case runs once to warm up, then n runs are recorded as a CUDA graph and replayed until there are enough samples; events on the stream take the
// time. The n runs read other memory each, more than the GPU's cache in all. The file is written again every second, so that a run that is cut off
// leaves what it had.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "config.h"
#include "experiment/bootstrap.h"
#include "gpu_cases.h"
#include "gpu_clock.h"
#include "patchbay/gpu_device.h"
#include "patchbay/plugin.h"
#include "registry.h"

using namespace patchbay;
using bench::Case;
using bench::Json;

namespace {

struct Options {
  std::string backend = "cuda", out, only;
  bool quick = false;
  std::vector<std::int64_t> once;  ///< tokens, rows, cols, context
  double seconds = 90;
};

std::vector<std::int64_t> read_shape(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::istringstream in(text);
  for (std::string number; std::getline(in, number, ',');) numbers.push_back(std::stoll(number));
  if (numbers.size() != 4) throw Error("--once", "'" + text + "' is no shape", "TOKENS,ROWS,COLS,CONTEXT");
  return numbers;
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw Error(name, "a value is missing");
      return std::string(argv[++i]);
    };
    if (name == "--backend") options.backend = value();
    else if (name == "--out") options.out = value();
    else if (name == "--only") options.only = value();
    else if (name == "--seconds") options.seconds = std::stod(value());
    else if (name == "--quick") options.quick = true;
    else if (name == "--once") options.once = read_shape(value());
    else throw Error(name, "is no option", "--backend, --out, --only, --seconds, --quick, --once");
  }
  if (options.backend != "cuda" && options.backend != "simt") throw Error("--backend", "'" + options.backend + "' runs no CUDA kernels", "cuda, simt");
  if (options.out.empty()) throw Error("--out", "names the file to write");
  return options;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), backend_(make<Backend>({options.backend, nullptr})), world_(gpu::world_of(backend_->device())) {
    report_ = {{"what", "kernels"}, {"backend", options.backend}, {"quick", options.quick}};
    report_["device"] = Json::parse(gpu::pick(gpu_launchers::bench_device, world_)(0));
    report_["results"] = Json::array();
  }

  void run() {
    if (!options_.once.empty()) return run_once();
    const auto& models = options_.quick ? bench::quick_shapes() : bench::model_shapes();
    const bench::Limits limits = options_.quick ? bench::Limits{models, {1, 16}, {40}, 1, options_.only}
                                                : bench::Limits{models, {1, 16, 512, 2048}, {512, 8192}, 192 << 20, options_.only};
    copy_bandwidth();
    const bench::Sink sink = [this](const Case& one) { return measure(one); };
    if (!options_.quick && options_.only.empty()) peak_of_cublas(sink);
    bench::attention_cases(*backend_, limits, sink);
    bench::operation_cases(*backend_, options_.backend, limits, sink);
    bench::matmul_cases(*backend_, limits, sink);  // the most of all: last
    count();
    write();
  }
  /// Cases that failed, where they should have been timed.
  int failed() const { return failed_; }

 private:
  /// The run came to its end; it is complete where each case was timed, or refused by what it is about.
  void count() {
    int left_out = 0;
    for (const Json& result : report_["results"]) left_out += result.contains("left_out");
    report_.update({{"ended", true}, {"complete", skipped_ + left_out + failed_ == 0}, {"not_run_for_lack_of_time", skipped_}, {"left_out", left_out}});
  }
  /// The emulator's documented cases (docs/kernels.md) on the device, so that a profiler can count the same launches.
  void run_once() {
    const std::int64_t tokens = options_.once[0], rows = options_.once[1], cols = options_.once[2], context = options_.once[3];
    const bench::Limits limits{{{"once", cols, 8, 2, 64, rows, 300}}, {tokens}, {context}, 1, options_.only};
    const bench::Sink sink = [&](const Case& one) {
      report_["results"].push_back(one.what);
      if (!one.run || one.what.value("kv_format", "fp16") != "fp16" || one.what.value("sequences", 1) != 1) return 0.0;
      if (one.what.contains("rows") && (one.what["rows"] != rows || one.what["cols"] != cols)) return 0.0;
      if (one.what["tokens"] != tokens || (one.what.contains("context") && one.what["context"] != context)) return 0.0;
      return seconds_of([&] { one.run(0); }, stream());
    };
    bench::matmul_cases(*backend_, limits, sink);
    bench::attention_cases(*backend_, limits, sink);
    write();
  }
  using Clock = std::chrono::steady_clock;
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  gpu::Stream stream() const { return gpu::stream_of(backend_->device()); }
  double seconds_of(const std::function<void()>& work, gpu::Stream where) { return gpu::pick(gpu_launchers::bench_seconds, world_)(where, work); }

  void write() {
    report_["seconds"] = written_ = elapsed();
    const std::string part = options_.out + ".part";
    std::ofstream(part) << report_.dump(1) << "\n";
    if (std::rename(part.c_str(), options_.out.c_str()) != 0) throw Error(options_.out, "cannot be written");
  }

  /// Bytes read and written per second by a copy within the device's memory: what bandwidth is compared with.
  void copy_bandwidth() {
    const std::int64_t bytes = options_.quick ? 1 << 16 : 1 << 30;
    const Buffer from = backend_->device().allocate(bytes), to = backend_->device().allocate(bytes);
    const auto copy = gpu::pick(gpu_launchers::bench_copy, world_);
    Case one{{{"kind", "copy"}, {"name", "bench_copy"}, {"bytes", bytes}}, 0, 2.0 * static_cast<double>(bytes), 1,
             [&](int) { copy(to.data(), from.data(), static_cast<std::size_t>(bytes), stream()); }};
    measure(one);
    copy_bytes_per_s_ = one.bytes / report_["results"].back()["seconds"].get<double>();
    report_["copy_gb_per_s"] = 1e-9 * copy_bytes_per_s_;
  }
  /// NVIDIA's library at a size that fills the GPU: what the other products are compared with.
  void peak_of_cublas(const bench::Sink& sink) {
    bench::Limits square{{{"square", 8192, 1, 1, 64, 8192, 1}}, {8192}, {}, 1, "matmul/fp16/cublas"};
    const std::size_t before = report_["results"].size();
    bench::matmul_cases(*backend_, square, sink);
    for (std::size_t i = before; i < report_["results"].size(); ++i)
      if (report_["results"][i].contains("tflops")) report_["cublas_tflops"] = peak_tflops_ = report_["results"][i]["tflops"].get<double>();
  }

  double measure(const Case& one) {
    Json result = one.what;
    if (!one.run) {
      report_["results"].push_back(result);
      return 0;
    }
    if (elapsed() > options_.seconds) {
      ++skipped_;
      return 0;
    }
    try {
      time(one, result);
    } catch (const Error& error) {  // what a kernel or format cannot take is refused before it gets here
      result["failed"] = error.what();
      ++failed_;
    }
    const double seconds = result.value("seconds", 0.0);
    if (seconds > 0) {
      result["gb_per_s"] = 1e-9 * one.bytes / seconds;
      if (copy_bytes_per_s_ > 0) result["of_copy"] = one.bytes / seconds / copy_bytes_per_s_;
      if (one.flops > 0) result["tflops"] = 1e-12 * one.flops / seconds;
      if (one.flops > 0 && peak_tflops_ > 0) result["of_cublas_peak"] = 1e-12 * one.flops / seconds / peak_tflops_;
    }
    report_["results"].push_back(result);
    if (elapsed() - written_ > 1) write();
    return seconds;
  }
  /// The median over samples of n runs each.
  void time(const Case& one, Json& result) {
    constexpr double kSample = 2e-3, kLongest = 0.4;
    Device& device = (one.backend ? *one.backend : *backend_).device();
    const gpu::Stream where = gpu::stream_of(device);
    one.run(0);  // modules are loaded, scratch is allocated
    const double first = seconds_of([&] { one.run(one.sets > 1 ? 1 : 0); }, where);
    if (first > kLongest && !options_.quick) {  // two runs would take longer than all the others
      result.update({{"seconds", first}, {"samples", 1}, {"runs_per_sample", 1}, {"timed", "one run"}});
      return;
    }
    const int runs = options_.quick ? 1 : std::clamp(static_cast<int>(kSample / std::max(first, 1e-7)), 1, 4 * one.sets < 64 ? 64 : 2 * one.sets);
    const auto all = [&] { for (int i = 0; i < runs; ++i) one.run(i); };
    std::unique_ptr<Graph> graph;
    try {
      graph = device.capture(all);
    } catch (const Error& error) {
      result["no_graph"] = error.what();
    }
    const auto sample = [&] { return seconds_of([&] { graph ? graph->replay() : all(); }, where) / runs; };
    sample();
    std::vector<double> samples;
    const double began = elapsed();
    const std::size_t most = options_.quick ? 1 : 9, least = options_.quick ? 1 : 3;
    while (samples.size() < least || (samples.size() < most && elapsed() - began < 0.015)) samples.push_back(sample());
    const auto [low, high] = std::ranges::minmax(samples);
    result.update({{"seconds", median(samples)}, {"least_seconds", low}, {"most_seconds", high}, {"samples", samples.size()}, {"runs_per_sample", runs},
                   {"sets", one.sets}, {"timed", graph ? "graph" : "launches"}});
  }

  Options options_;
  std::shared_ptr<Backend> backend_;
  gpu::World world_;
  Json report_;
  Clock::time_point started_ = Clock::now();
  double written_ = 0, copy_bytes_per_s_ = 0, peak_tflops_ = 0;
  int skipped_ = 0, failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Bench bench(read_options(argc, argv));
    bench.run();
    if (bench.failed() == 0) return 0;
    fmt::print(stderr, "bench_gpu: {} of the cases failed\n", bench.failed());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
}
