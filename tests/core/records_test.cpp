#include "experiment/records.h"
#include "experiment/score_files.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "experiment/evaluation.h"
#include "experiment/sha256.h"
#include "files.h"
#include "support.h"

using namespace patchbay;
namespace fs = std::filesystem;

namespace {

using Folder = test::TemporaryFolder;
using test::message_of;

Json record(const std::string& hash) { return {{"hash", hash}, {"metrics", {{"perplexity", 1.5}}}}; }

void start(const RecordFolder& folder, const std::string& name) { folder.write_experiment(Json::object({{"name", name}, {"runs", 2}}).dump()); }

void append_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::app | std::ios::binary) << text; }

}  // namespace

TEST_CASE("SHA-256 gives the digests of FIPS 180-4 and of sha256sum") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  Sha256 pieces;
  for (int i = 0; i < 1000; ++i) pieces.update(std::string(1000, 'a'));
  CHECK(pieces.hex() == sha256(std::string(1000000, 'a')));
}

TEST_CASE("a file's remembered hash follows the file") {
  Folder folder;
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "";
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const auto file = folder / "text";
  write_file_atomically(file, "abc");
  CHECK(sha256_of_file(file) == sha256("abc"));
  CHECK(sha256_of_file(file) == sha256("abc"));
  CHECK(!fs::is_empty(folder / "cache/patchbay/sha256"));
  write_file_atomically(file, "abd");  // same size, perhaps the same second
  CHECK(sha256_of_file(file) == sha256("abd"));
  before ? setenv("XDG_CACHE_HOME", kept.c_str(), 1) : unsetenv("XDG_CACHE_HOME");
}

TEST_CASE("what may never end is not read: a pipe, a device, a folder") {
  const Folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    CHECK_THAT(message_of([&] { read_whole_file(path); }), Catch::Contains(path + ": is a pipe or a device") && Catch::Contains("a regular file"));
    CHECK_THAT(message_of([&] { sha256_of_file(path); }), Catch::Contains("is a pipe or a device"));
  }
  CHECK_THAT(message_of([&] { read_whole_file(folder.path); }), Catch::Contains("is a folder"));
}

TEST_CASE("an identity does not depend on the order of its keys") {
  CHECK(identity_hash({{"a", 1}, {"b", 2}}) == identity_hash({{"b", 2}, {"a", 1}}));
  CHECK(identity_hash({{"a", 1}}) != identity_hash({{"a", 2}}));
}

TEST_CASE("records are found again, in their folder and no other") {
  Folder place;
  const auto out = place / "out";
  {
    RecordFolder folder(out, "mine", false);
    start(folder, "mine");
    folder.add(record("a"));
    folder.add(record("b"));
    CHECK(folder.find("a"));
    CHECK_FALSE(folder.find("c"));
    CHECK(message_of([&] { RecordFolder second(out, "mine", true); }).find("another patchbay is writing") != std::string::npos);
  }
  CHECK(message_of([&] { RecordFolder again(out, "mine", false); }).find("--resume") != std::string::npos);
  CHECK(message_of([&] { RecordFolder other(out, "other", true); }).find("another experiment: mine") != std::string::npos);
  RecordFolder again(out, "mine", true);
  REQUIRE(again.find("b"));
  CHECK(*again.find("b") == record("b"));
  CHECK(read_records(out).size() == 2);
}

TEST_CASE("a folder of the same experiment with other settings names them, and does not call for --resume alone") {
  Folder place;
  const auto out = place / "out";
  const Json there = {{"name", "mine"}, {"seed", 1}, {"base", {{"activations", "q8"}, {"kv_store", {{"type", "paged"}}}}}, {"sweep", {{"weights.format.bits", {2, 3}}}}};
  { RecordFolder(out, "mine", false, there).write_experiment(Json{{"name", "mine"}, {"yaml", there}}.dump()); }
  const auto refusal = [&](const Json& here) {
    return message_of([&] { RecordFolder folder(out, "mine", false, here); });
  };
  CHECK(refusal(there).ends_with("holds results of this experiment already; add --resume to go on, or give another --out"));
  auto here = there;
  here["note"] = "says more";  // and changes nothing
  CHECK(refusal(here) == refusal(there));
  here["seed"] = 2;
  here["base"] = {{"activations", "q8"}, {"threads", 2}};
  here["sweep"]["weights.format.bits"] = {2, 3, 4};
  CHECK(refusal(here).find("with other settings: seed: 1 there, 2 here; base.kv_store.type: paged there, - here; sweep.weights.format.bits: [2,3] there, "
                           "[2,3,4] here; base.threads: - there, 2 here; give another --out to keep both apart (with --resume,") != std::string::npos);
  RecordFolder again(out, "mine", true, here);  // what is asked for is done
}

TEST_CASE("a folder that is not ours is refused and left as it is") {
  Folder place;
  append_text(place / "thesis.txt", "years of work");
  CHECK(message_of([&] { RecordFolder folder(place.path, "mine", true); }).find("holds other files") != std::string::npos);
  CHECK(std::distance(fs::directory_iterator(place.path), {}) == 1);
  CHECK(message_of([&] { RecordFolder folder(place / "thesis.txt", "mine", false); }).find("cannot be made a folder") != std::string::npos);
}

TEST_CASE("a torn last line is cut off, a broken line inside is refused") {
  Folder place;
  const auto out = place / "out", file = out + "/records.jsonl";
  { RecordFolder folder(out, "mine", false); start(folder, "mine"); folder.add(record("a")); }
  append_text(file, R"({"hash":"b","metr)");
  CHECK(read_records(out).size() == 1);
  {
    RecordFolder folder(out, "mine", true);
    CHECK_FALSE(folder.find("b"));
    folder.add(record("c"));
  }
  CHECK(read_records(out).size() == 2);
  append_text(file, "{}\n");
  CHECK(message_of([&] { RecordFolder folder(out, "mine", true); }).find("records.jsonl:3: is no record") != std::string::npos);
}

TEST_CASE("a kill at any moment loses no finished record") {
  Folder place;
  const auto out = place / "out";
  int confirmed = 0;
  for (int round = 0; round < 8; ++round) {
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    const auto child = ::fork();
    if (child == 0) {
      try {
        RecordFolder folder(out, "mine", true);
        start(folder, "mine");
        for (int i = confirmed;; ++i) {
          auto made = record(std::to_string(i));
          made["filler"] = std::string(20000, 'x');
          folder.add(made);
          if (::write(pipe_ends[1], "x", 1) != 1) ::_exit(1);
        }
      } catch (...) {
        ::_exit(2);
      }
    }
    ::close(pipe_ends[1]);
    ::usleep(20000 + 7000 * round);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    for (char byte; ::read(pipe_ends[0], &byte, 1) == 1;) ++confirmed;
    ::close(pipe_ends[0]);
    RecordFolder folder(out, "mine", true);
    for (int i = 0; i < confirmed; ++i) REQUIRE(folder.find(std::to_string(i)));
    while (folder.find(std::to_string(confirmed))) ++confirmed;  // written, but killed before it could say so
  }
  CHECK(confirmed > 0);
}

TEST_CASE("a full disk is an error that leaves finished records whole") {
  Folder place;
  const auto out = place / "out";
  { RecordFolder folder(out, "mine", false); start(folder, "mine"); folder.add(record("a")); }
  const auto child = ::fork();
  if (child == 0) {  // a limit on file sizes fails in the way a full disk does: a part is written, then an error
    std::signal(SIGXFSZ, SIG_IGN);
    int code = 1;
    try {
      RecordFolder folder(out, "mine", true);
      const rlimit limit{4096, 4096};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      auto large = record("b");
      large["filler"] = std::string(100000, 'x');
      folder.add(large);
    } catch (const Error& error) {
      code = std::string(error.what()).find("--resume") != std::string::npos ? 0 : 3;
    } catch (...) {
      code = 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(read_records(out).size() == 1);
  const auto text = test::read_file(out + "/records.jsonl");
  CHECK(text.back() == '\n');
}

TEST_CASE("scores per token survive their file; a cut or foreign file is refused") {
  Folder place;
  const auto path = place / "scores.bin";
  const TokenScores scores{2, 3, {1, 2, 3, 4, 5, 6.5f}, {0, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f}, {1, 2, 3, 4, 5, 6}};
  write_scores(path, scores);
  const auto back = read_scores(path);
  CHECK(back.windows == 2);
  CHECK(back.per_window == 3);
  CHECK(back.nll == scores.nll);
  CHECK(back.kl == scores.kl);
  CHECK(back.top1 == scores.top1);
  CHECK(scores_are_whole(path));
  fs::resize_file(path, fs::file_size(path) - 1);
  CHECK_FALSE(scores_are_whole(path));
  CHECK_FALSE(scores_are_whole(place / "none.bin"));
  CHECK_THROWS_AS(read_scores(path), Error);
  write_file_atomically(path, "another kind of file, long enough");
  CHECK_THROWS_AS(read_scores(path), Error);
}
