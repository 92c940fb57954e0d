// A model by its name: where its description and its file are looked for, and what is said when they are missing.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "model_file.h"
#include "support.h"

using namespace patchbay;
namespace fs = std::filesystem;

namespace {

/// A current folder with configs/models, and a cache folder, both empty.
class Place {
 public:
  Place()
      : before_(fs::current_path()),
        folder_(fs::temp_directory_path() / ("patchbay_find_model_" + std::to_string(::getpid()))) {
    if (const char* cache = std::getenv("XDG_CACHE_HOME")) cache_before_ = cache;
    fs::create_directories(folder_ / "configs/models");
    fs::create_directories(cache());
    fs::current_path(folder_);
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }
  ~Place() {
    fs::current_path(before_);
    if (cache_before_.empty()) {
      ::unsetenv("XDG_CACHE_HOME");
    } else {
      ::setenv("XDG_CACHE_HOME", cache_before_.c_str(), 1);
    }
    fs::remove_all(folder_);
  }
  fs::path cache() const { return folder_ / "cache/patchbay/models"; }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static void describe(const std::string& text) { write("configs/models/mine.yaml", text); }

 private:
  fs::path before_, folder_;
  std::string cache_before_;
};

}  // namespace

TEST_CASE("a name leads to the file in the cache, beside its description, or in data/") {
  const Place place;
  place.describe("file: mine.gguf\nsha256: " + std::string(64, '0') + "\nbytes: 5\n");
  CHECK_THROWS_WITH(find_model("mine"), Catch::Contains("mine.gguf is not in") && Catch::Contains("scripts/fetch_model.sh mine"));
  place.write("configs/models/mine.gguf", "12345");
  CHECK(find_model("mine") == "configs/models/mine.gguf");
  fs::remove("configs/models/mine.gguf");
  fs::create_directories("data/mine");
  place.write("data/mine/mine.gguf", "12345");
  CHECK(find_model("mine") == "data/mine/mine.gguf");
  place.write(place.cache() / "mine.gguf", "12345");
  CHECK(find_model("mine") == (place.cache() / "mine.gguf").string());
  place.write(place.cache() / "mine.gguf", "1234");
  CHECK_THROWS_WITH(find_model("mine"), Catch::Contains("4 bytes where") && Catch::Contains("says 5"));
}

TEST_CASE("a path is taken as it is; what is neither is refused with the names that are known") {
  const Place place;
  place.write("some.gguf", "x");
  place.write("plain", "x");
  CHECK(find_model("some.gguf") == "some.gguf");
  CHECK(find_model("plain") == "plain");
  CHECK_THROWS_WITH(find_model("absent.gguf"), Catch::Contains("no such file"));
  CHECK_THROWS_WITH(find_model("./configs"), Catch::Contains("./configs/config.json: no such file: the folder holds no model"));
  CHECK_THROWS_WITH(find_model("configs"), Catch::Contains("configs: is a folder without config.json, and there is no model of this name"));
  CHECK_THROWS_WITH(find_model("smollm2"), Catch::Contains("no such model") && Catch::Contains("smollm2-135m"));
  CHECK_THROWS_WITH(find_model(""), Catch::Contains("is empty"));
}

TEST_CASE("a description with a fault is refused by its key") {
  const Place place;
  place.write("configs/models/x.gguf", "x");
  place.describe("file: x.gguf\nbytes: 1\nlicense: MIT\n");
  CHECK_THROWS_WITH(find_model("mine"), Catch::Contains("license: unknown key"));
  place.describe("bytes: 1\n");
  CHECK_THROWS_WITH(find_model("mine"), Catch::Contains("file: missing key"));
  place.describe("file: ../x.gguf\nbytes: 1\n");
  CHECK_THROWS_WITH(find_model("mine"), Catch::Contains("without folders"));
  place.describe("file: [x.gguf]\nbytes: 1\n");
  CHECK_THROWS_WITH(find_model("mine"), Catch::Contains("must be a single value"));
  place.describe("file: x.gguf\nbytes: many\n");
  CHECK_THROWS_WITH(find_model("mine"), Catch::Contains("'many' is not a size"));
}

TEST_CASE("the description of the quick start's model is found from anywhere") {
  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "SmolLM2-135M-Instruct.Q4_1.gguf");
  CHECK(find_model("smollm2-135m") == model);
}

TEST_CASE("the model that comes with patchbay is found from anywhere") {
  const Place place;
  const std::string model = test::source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf");
  CHECK(fs::equivalent(find_model("tiny-shakespeare"), model));
}
