// The step loop. What a sequence still has to run is always tokens[cached, end): its prompt at first, one token after a step, the
// whole text again when its cache had to be taken away. So prefill, chunks, decoding and recomputation are one case; a draft is
// a few more rows behind them.
#include "generation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "draft_rules.h"
#include "failures.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check(const ModelRunner& runner, std::span<const GenerationRequest> requests, const GenerationOptions& options) {
  if (options.max_batched_tokens < 1) {
    throw Error("max_batched_tokens", std::to_string(options.max_batched_tokens) + " tokens", "at least 1");
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string where = "request " + std::to_string(i);
    if (requests[i].prompt.empty()) throw Error(where, "the prompt is empty", "at least one token");
    if (!requests[i].decoder) throw Error(where, "no decoder");
    if (static_cast<std::int64_t>(requests[i].prompt.size()) > runner.context_length()) {
      throw Error(where, "the prompt has " + std::to_string(requests[i].prompt.size()) + " tokens and the context " +
                             std::to_string(runner.context_length()),
                  "", "shorten the prompt");
    }
  }
}

/// A request under way.
struct Running {
  GenerationRequest* request = nullptr;
  GenerationResult result;
  Sequence sequence;
  enum class State { waiting, open, done } state = State::waiting;  // only an open one holds cache
  Draft draft;
  std::int64_t rows = 0;         // of the pending tokens in this step; the draft's rows follow them
  bool wants_logits = false;     // the pending tokens end in this step
  std::int64_t logits_row = 0;   // in the step's logits
  std::optional<TokenDraw> draw;    // how the runner may choose in the decoder's place
  std::optional<double> uniform;    // the number of its next draw, taken once however often a step is tried

  std::int64_t emitted() const { return static_cast<std::int64_t>(result.tokens.size()); }
};

class Generation {
 public:
  Generation(ModelRunner& runner, std::span<GenerationRequest> requests, const GenerationOptions& options)
      : runner_(runner), options_(options), all_(requests.size()) {
    for (std::size_t i = 0; i < requests.size(); ++i) start(all_[i], requests[i]);
  }
  ~Generation() {  // after an exception: nothing may stay in the cache
    for (Running& r : all_) if (r.state == Running::State::open) runner_.close(r.sequence.id);
  }

  std::vector<GenerationResult> run() {
    while (std::any_of(all_.begin(), all_.end(), [](const Running& r) { return r.state != Running::State::done; })) {
      if (options_.between_steps) options_.between_steps();
      if (may_admit_) admit();
      propose();
      if (const std::optional<Step> step = forward()) {
        for (Running& r : all_) if (r.state == Running::State::open && r.rows > 0) advance(r, *step);
      }
    }
    if (failure_) throw *failure_;
    std::vector<GenerationResult> results;
    for (Running& r : all_) results.push_back(std::move(r.result));
    return results;
  }

 private:
  void start(Running& r, GenerationRequest& request) {
    r.request = &request;
    r.sequence.tokens = request.prompt;
    r.sequence.prompt_length = static_cast<std::int64_t>(request.prompt.size());
    // The last token emitted needs no place in the cache.
    r.sequence.max_new_tokens = std::min(request.max_tokens, runner_.context_length() + 1 - r.sequence.prompt_length);
    r.sequence.processors = request.processors;
    r.sequence.rng = Rng(request.seed, request.stream);
    r.draw = draw_on_device(*request.decoder, request.processors);
    for (auto& processor : request.processors) for (const Token token : request.prompt) processor->push(token);
    if (r.sequence.max_new_tokens <= 0) finish(r, GenerationResult::Finish::length);
  }

  std::int64_t pending(const Running& r) const {
    return static_cast<std::int64_t>(r.sequence.tokens.size()) - runner_.length(r.sequence.id);
  }

  /// Opens every sequence that waits, on top of finished work where the prefix policy knows some.
  void admit() {
    may_admit_ = false;
    for (Running& r : all_) {
      if (r.state != Running::State::waiting) continue;
      const auto& tokens = r.sequence.tokens;
      const PrefixMatch match = options_.prefix ? options_.prefix->match(tokens) : PrefixMatch{};
      if (match.tokens <= 0) {
        r.sequence.id = runner_.open();
      } else {
        const std::int64_t surplus = runner_.length(match.donor) - match.tokens;
        if (surplus < 0 || match.tokens >= static_cast<std::int64_t>(tokens.size())) {
          throw Error("kv_prefix", "a match of " + std::to_string(match.tokens) + " tokens for a text of " +
                                       std::to_string(tokens.size()), "fewer than the text has and no more than the donor's");
        }
        r.sequence.id = runner_.fork(match.donor);
        r.state = Running::State::open;
        runner_.rollback(r.sequence.id, surplus);
      }
      r.state = Running::State::open;
    }
  }

  /// Asks each decoder once, for all its sequences that are past their prompt.
  void propose() {
    std::map<Decoder*, std::vector<Running*>> groups;
    for (Running& r : all_) {
      r.draft = {};
      if (r.state == Running::State::open && r.emitted() > 0 && pending(r) == 1) groups[r.request->decoder.get()].push_back(&r);
    }
    for (auto& [decoder, members] : groups) {
      std::vector<Sequence*> sequences;
      for (Running* r : members) sequences.push_back(&r->sequence);
      const std::vector<Draft> drafts = decoder->propose(sequences, runner_);
      if (drafts.size() != members.size()) {
        throw Error("decoder", "it gave " + std::to_string(drafts.size()) + " drafts for " + std::to_string(members.size()) +
                                   " sequences");
      }
      for (std::size_t i = 0; i < members.size(); ++i) {
        const Sequence& s = members[i]->sequence;
        check_draft(drafts[i], runner_.vocabulary());
        const std::int64_t room = runner_.context_length() - static_cast<std::int64_t>(s.tokens.size());
        members[i]->draft = clip_draft(drafts[i], s.max_new_tokens - 1, room, runner_.vocabulary());
      }
    }
  }

  /// Lays out one batch: every sequence that decodes, then as much of the prompts as the budget leaves.
  void lay_out() {
    batch_.clear();
    draws_.clear();
    std::int64_t budget = options_.max_batched_tokens, logits = 0;
    const auto add = [&](Running& r, std::int64_t limit) {
      const std::int64_t cached = runner_.length(r.sequence.id);
      r.rows = std::min(pending(r), limit);
      r.wants_logits = r.rows == pending(r);
      r.logits_row = logits;
      const auto id = r.sequence.id;
      for (std::int32_t i = 0; i < r.rows; ++i) {
        batch_.push_back({id, r.sequence.tokens[cached + i], i - 1, r.wants_logits && i + 1 == r.rows});
      }
      for (std::size_t i = 0; i < r.draft.tokens.size(); ++i) {
        batch_.push_back({id, r.draft.tokens[i], static_cast<std::int32_t>(r.rows) + r.draft.parents[i], true});
      }
      if (r.wants_logits && drawing_) draws_.insert(draws_.end(), 1 + r.draft.tokens.size(), next_draw(r));
      budget -= r.rows + static_cast<std::int64_t>(r.draft.tokens.size());
      if (r.wants_logits) logits += 1 + static_cast<std::int64_t>(r.draft.tokens.size());
    };
    const auto open = [](const Running& r) { return r.state == Running::State::open; };
    for (Running& r : all_) r.rows = 0;
    for (Running& r : all_) if (open(r) && pending(r) == 1) add(r, 1);
    for (Running& r : all_) if (open(r) && pending(r) > 1 && budget > 0) add(r, budget);
  }

  TokenDraw next_draw(Running& r) {
    TokenDraw draw = *r.draw;
    if (draw.temperature == 0) return draw;
    if (!r.uniform) r.uniform = r.sequence.rng.uniform();
    draw.uniform = *r.uniform;
    return draw;
  }

  /// Runs the batch. When the cache is full the drafts go first, then the cache of the youngest sequence (recomputed once another
  /// has ended); a sequence that is full on its own ends. Nothing: no step came about, start over.
  std::optional<Step> forward() {
    while (true) {
      const auto open = [](const Running& r) { return r.state == Running::State::open; };
      drawing_ = runner_.draws() && std::all_of(all_.begin(), all_.end(), [&](const Running& r) { return !open(r) || r.draw; });
      lay_out();
      const Step step = drawing_ ? runner_.forward_and_draw(batch_, draws_) : runner_.forward(batch_);
      if (!step.full) return step;
      if (std::any_of(all_.begin(), all_.end(), [](const Running& r) { return !r.draft.tokens.empty(); })) {
        for (Running& r : all_) r.draft = {};
        continue;
      }
      Running& youngest = *std::find_if(all_.rbegin(), all_.rend(), open);
      if (std::count_if(all_.begin(), all_.end(), open) == 1) {
        end_full(youngest);
        return std::nullopt;
      }
      runner_.close(youngest.sequence.id);
      youngest.state = Running::State::waiting;
    }
  }

  /// The cache does not hold this sequence even alone: one that has output keeps it, a prompt is an error, raised when the others
  /// are done.
  void end_full(Running& r) {
    if (r.emitted() == 0 && !failure_) {
      failure_ = Error("request " + std::to_string(&r - all_.data()),
                       "the prompt has " + std::to_string(r.sequence.prompt_length) + " tokens and the cache took " +
                           std::to_string(runner_.length(r.sequence.id)) + " of them, then had no room for " +
                           std::to_string(r.rows) + " more", "", "give the cache more tokens or shorten the prompt");
    }
    finish(r, GenerationResult::Finish::full);
  }

  /// Keeps what the step gave one sequence.
  void advance(Running& r, const Step& step) {
    std::vector<std::int32_t> kept(r.rows);
    for (std::int32_t i = 0; i < r.rows; ++i) kept[i] = i;
    if (!r.wants_logits) {
      runner_.commit(r.sequence.id, kept);
      return;
    }
    GenerationResult& result = r.result;
    const bool first = r.emitted() == 0;
    if (first) result.prefill_seconds = seconds_since(start_); else ++result.passes;
    const std::int64_t n = static_cast<std::int64_t>(r.draft.tokens.size());
    const Accepted accepted = accept(r, step, n);
    check_path(r.draft, accepted);

    // An end inside the accepted run cuts it there: what is cached is all but the last token emitted.
    std::optional<GenerationResult::Finish> end;
    std::size_t taken = 0;
    for (; taken <= accepted.path.size() && !end; ++taken) {
      const bool drafted = taken < accepted.path.size();
      end = emit(r, drafted ? r.draft.tokens[accepted.path[taken]] : accepted.next);
      if (drafted && !end) kept.push_back(static_cast<std::int32_t>(r.rows) + accepted.path[taken]);
    }
    result.drafted += n;
    result.accepted += static_cast<std::int64_t>(std::min(taken, accepted.path.size()));
    if (first) result.first_token_seconds = seconds_since(start_);
    runner_.commit(r.sequence.id, kept);
    retain(r);
    if (end) finish(r, *end);
  }

  /// The decoder's verdict on n drafted tokens, from logits or from what the runner has drawn.
  Accepted accept(Running& r, const Step& step, std::int64_t n) {
    Decoder& decoder = *r.request->decoder;
    if (!drawing_) return decoder.accept(r.sequence, r.draft, processed(r, step.logits.rows(r.logits_row, r.logits_row + n + 1)));
    const auto chosen = step.drawn.subspan(r.logits_row, n + 1);
    if (std::find(chosen.begin(), chosen.end(), -1) != chosen.end()) {
      throw Error("logits", "no token can be chosen: a logit is not a number, or every token is forbidden", "", kLogitsRemedy);
    }
    r.uniform.reset();
    return decoder.accept_chosen(r.sequence, r.draft, chosen);
  }

  /// The logits as the sequence's processors leave them. The model's own stay as they are.
  View<const float, 2> processed(Running& r, View<const float, 2> logits) {
    if (r.sequence.processors.empty()) return logits;
    scratch_.resize(logits.size());
    const View<float, 2> rows(scratch_.data(), logits.shape);
    std::vector<Token> ancestors;
    for (std::int64_t i = 0; i < logits.shape[0]; ++i) {
      for (std::int64_t v = 0; v < logits.shape[1]; ++v) rows(i, v) = logits(i, v);
      ancestors.clear();
      for (std::int64_t a = i - 1; a >= 0; a = r.draft.parents[a]) ancestors.push_back(r.draft.tokens[a]);
      for (auto& processor : r.sequence.processors) {
        for (auto token = ancestors.rbegin(); token != ancestors.rend(); ++token) processor->push(*token);
        processor->apply(rows[i]);
        processor->rollback(static_cast<std::int64_t>(ancestors.size()));
      }
    }
    return rows;
  }

  std::optional<GenerationResult::Finish> emit(Running& r, Token token) {
    r.sequence.tokens.push_back(token);
    r.result.tokens.push_back(token);
    --r.sequence.max_new_tokens;
    for (auto& processor : r.sequence.processors) processor->push(token);
    if (r.request->on_token) r.request->on_token(token);
    if (r.request->is_end && r.request->is_end(token)) return GenerationResult::Finish::stop;
    if (r.sequence.max_new_tokens == 0) return GenerationResult::Finish::length;
    return std::nullopt;
  }

  /// A runner cannot drop single tokens yet, so only a policy that keeps them all can be obeyed.
  void retain(const Running& r) {
    if (!options_.retention) return;
    const std::int64_t length = runner_.length(r.sequence.id);
    const std::size_t victims = options_.retention->victims(r.sequence.id, length).size();
    if (victims == 0) return;
    throw Error("kv_retention", "the policy drops " + std::to_string(victims) + " of " + std::to_string(length) +
                                    " cached tokens, which the model runner cannot do", "a policy that keeps all (keep_all)");
  }

  void finish(Running& r, GenerationResult::Finish how) {
    if (r.state == Running::State::open) {
      const std::span<const Token> cached(r.sequence.tokens.data(), runner_.length(r.sequence.id));
      const bool donated = options_.prefix && options_.prefix->donate(r.sequence.id, cached);
      if (!donated) runner_.close(r.sequence.id);
    }
    r.state = Running::State::done;
    r.result.finish = how;
    if (r.emitted() > 0) r.result.decode_seconds = seconds_since(start_) - r.result.first_token_seconds;
    may_admit_ = true;
    if (r.request->on_finish) r.request->on_finish(r.result);
  }

  ModelRunner& runner_;
  const GenerationOptions& options_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Running> all_;        // in the order of the requests: the first is the oldest
  bool may_admit_ = true;           // at the start and whenever a sequence ended
  std::vector<TokenRow> batch_;
  bool drawing_ = false;            // the runner chooses tokens in this step
  std::vector<TokenDraw> draws_;    // of this step's rows that want logits
  std::vector<float> scratch_;
  std::optional<Error> failure_;
};

}  // namespace

std::optional<TokenDraw> draw_on_device(const Decoder& decoder, std::span<const std::shared_ptr<LogitsProcessor>> processors) {
  if (decoder.chooses() == Choice::own) return std::nullopt;
  TokenDraw draw;
  draw.temperature = 1;
  for (const auto& processor : processors) {
    if (!processor->add_to(draw)) return std::nullopt;
  }
  if (decoder.chooses() == Choice::largest) draw = {};  // none of the processors forbids it
  return draw;
}

std::vector<GenerationResult> generate(ModelRunner& runner, std::span<GenerationRequest> requests,
                                       const GenerationOptions& options) {
  check(runner, requests, options);
  return Generation(runner, requests, options).run();
}

}  // namespace patchbay
