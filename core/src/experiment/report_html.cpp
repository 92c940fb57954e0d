#include "experiment/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "experiment/report.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// No script and nothing from elsewhere runs in this page, whatever a record holds.
constexpr const char* kHead = R"(<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}</title>
<style>
:root {{ --bg: #fff; --fg: #1c1f23; --faint: #6a7178; --line: #dcdfe3; --stripe: #f6f7f8; --accent: #0b62b8; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --bg: #15181c; --fg: #e4e7ea; --faint: #98a0a8; --line: #343a41; --stripe: #1c2025; --accent: #6fb3f5; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 1500px; padding: 1.5rem clamp(.8rem, 2vw, 2.5rem) 4rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }}
h1 {{ font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }}
h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }}
.lead {{ font-size: 1.1rem; margin: .3rem 0; max-width: 75ch; }}
.faint, figcaption {{ color: var(--faint); font-size: .87rem; }}
.notes {{ color: var(--faint); font-size: .87rem; max-width: 110ch; }}
.wide {{ overflow: auto; max-height: 85vh; border: 1px solid var(--line); border-radius: 4px; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .8rem; }}
.wide > table {{ min-width: 100%; }}
th, td {{ padding: .28rem .36rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }}
tr:last-child > * {{ border-bottom: 0; }}
thead th {{ position: sticky; top: 0; background: var(--bg); box-shadow: inset 0 -1px var(--line); vertical-align: bottom; font-weight: 600; }}
tbody tr {{ background: var(--bg); }}
tbody tr:nth-child(even) {{ background: var(--stripe); }}
.n {{ text-align: right; }}
td.n {{ white-space: nowrap; }}
td:first-child {{ min-width: 7rem; }}
.wide tr > :first-child {{ position: sticky; left: 0; background: inherit; }}  /* a row keeps its name while it is scrolled */
thead tr {{ background: var(--bg); }}
thead tr > :first-child {{ z-index: 1; }}
.baseline td {{ font-weight: 600; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem; }}
figure {{ margin: 0; min-width: 0; }}
figure > svg {{ width: 100%; max-width: 38rem; height: auto; display: block; margin: 0 auto; stroke-linejoin: round; }}
figcaption {{ margin: .4rem 0 .6rem; }}
pre {{ overflow: auto; max-height: 30rem; padding: .7rem .9rem; border: 1px solid var(--line); border-radius: 4px; background: var(--stripe);
  font: .84rem/1.45 ui-monospace, monospace; margin: .5rem 0; }}
.settings {{ columns: 24rem; }}
code {{ font: .9em ui-monospace, monospace; }}
summary {{ cursor: pointer; padding: .2rem 0; }}
@media print {{ .wide, pre {{ overflow: visible; max-height: none; }} thead th {{ position: static; }} }}
</style>
</head>
<body>
)";

std::string section(const std::string& title, const std::string& body) { return fmt::format("<h2>{}</h2>\n{}\n", html(title), body); }

std::string folded(const std::string& title, const std::string& body, bool open = false) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open" : "", html(title), body);
}

/// Cells from column `figures` on are numbers; `marked` rows stand out. A wide table scrolls within itself.
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows, std::size_t figures,
                  const std::vector<bool>& marked = {}) {
  const auto number = [&](std::size_t c) { return c >= figures ? " class=\"n\"" : ""; };
  std::string text = "<div class=\"wide\" tabindex=\"0\"><table>\n";
  if (!header.empty()) text += "<thead><tr>";
  for (std::size_t c = 0; c < header.size(); ++c) {
    std::string title = html(header[c]);
    if (const auto at = title.find('\n'); at != std::string::npos) title.replace(at, 1, "<br>");
    text += fmt::format("<th scope=\"col\"{}>{}</th>", number(c), title);
  }
  text += header.empty() ? "<tbody>\n" : "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += r < marked.size() && marked[r] ? "<tr class=\"baseline\">" : "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c) text += fmt::format("<td{}>{}</td>", number(c), html(rows[r][c]));
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table></div>\n";
}

std::string lines_as_paragraphs(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    const bool goes_on = line.starts_with("  ");  // indented: the line before goes on
    out += (goes_on ? " " : out.empty() ? "<p class=\"notes\">" : "<br>\n") + html(line.substr(goes_on ? 2 : 0));
  }
  return out.empty() ? out : out + "</p>\n";
}

std::string results(const RecordSet& set, const std::vector<Json>& records) {
  auto grid = report_grid(records);
  std::vector<bool> marked;
  for (std::size_t i = 0; i < records.size(); ++i) {
    marked.push_back(records[i].value("baseline", false));
    if (marked.back()) grid.rows[i][0] += " *";
  }
  return table(grid.header, grid.rows, grid.labels, marked) + lines_as_paragraphs(report_legend(records) + baseline_rule(set) + source_notes(set));
}

std::string roofline(const std::vector<Json>& records) {
  const auto grid = roofline_grid(records);
  return grid.rows.empty() ? "" : section("Predicted cost", table(grid.header, grid.rows, grid.labels) + lines_as_paragraphs(roofline_legend(records)));
}

std::string front_table(const Plot& plot) {
  std::vector<const PlotPoint*> front;
  for (const auto& point : plot.points)
    if (point.front) front.push_back(&point);
  std::ranges::stable_sort(front, {}, &PlotPoint::number);
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> marked;
  for (const auto* p : front) {
    const auto shown = [](double value, const auto& low, const auto& high) {
      return low && high ? plus_minus(value, (*high - *low) / 2) : fmt::format("{:.5g}", value);
    };
    rows.push_back({fmt::format("{}. {}{}", p->number, p->label, p->baseline ? " *" : ""), shown(p->x, p->x_low, p->x_high), shown(p->y, p->y_low, p->y_high)});
    marked.push_back(p->baseline);
  }
  return table({"on the front", plot.x_label, plot.y_label}, rows, 1, marked);
}

std::string figure(const Plot& plot) {
  std::string picture = plot.svg;
  if (const auto at = picture.find("<svg"); at != std::string::npos) picture.insert(at + 4, " role=\"img\" aria-label=\"" + html(plot.title) + "\"");
  return fmt::format("<figure>\n{}<figcaption>{}: {} runs, {} of them on the Pareto front: no other run is as good in both and better in one; intervals "
                     "are not looked at.{}</figcaption>\n{}</figure>\n",
                     picture, html(plot.title), plot.points.size(), std::ranges::count_if(plot.points, &PlotPoint::front),
                     picture.empty() ? "" : " Numbers: the rows below; lines through points: 95% intervals; star: the baseline.", front_table(plot));
}

std::string plots_part(const std::vector<Plot>& plots, const std::string& remark) {
  if (plots.empty())
    return "<p class=\"faint\">No plots: they need two runs or more with a quality and a cost, scored on the same text under the same protocol.</p>\n";
  std::string text = "<div class=\"plots\">\n";
  for (const auto& plot : plots) text += figure(plot);
  text += "</div>\n";
  for (const auto& [name, why] : {std::pair{"bytes", "No sizes were measured (task memory)."}, std::pair{"speed", "No speed was measured (task throughput)."}})
    if (std::ranges::find(plots, name, &Plot::name) == plots.end()) text += fmt::format("<p class=\"faint\">{}</p>\n", why);
  return remark.empty() ? text : text + fmt::format("<p class=\"faint\">{}</p>\n", html(remark));
}

std::string settings_text(const Json& config) {
  std::string text;
  for (const auto& [path, value] : flattened(config)) text += escaped(path) + ": " + escaped(value) + "\n";
  return "<pre class=\"settings\">" + html(text) + "</pre>\n";
}

/// The baseline of the folder that record i is from, or its first record.
const Json& reference_of(const RecordSet& set, std::size_t i) {
  const Json* first = nullptr;
  for (std::size_t r = 0; r < set.records.size(); ++r) {
    if (set.source_of[r] != set.source_of[i]) continue;
    if (set.records[r].value("baseline", false)) return set.records[r];
    if (!first) first = &set.records[r];
  }
  return *first;
}

/// "attention.type: naive → flash; decoder.k: 5; without kv_store.block_size".
std::string changes_text(const Json& from, const Json& to) {
  std::string text;
  for (const auto& change : differences(from, to)) {
    if (!text.empty()) text += "; ";
    if (change.second == "-") text += "without " + change.path;
    else text += change.path + ": " + (change.first == "-" ? "" : change.first + " → ") + change.second;
  }
  return text.empty() ? "the same settings" : text;
}

std::string configuration(const RecordSet& set) {
  std::string text;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < set.records.size(); ++i) {
    const auto& record = set.records[i];
    const auto& reference = reference_of(set, i);
    const auto name = (set.sources.size() > 1 ? set.sources[set.source_of[i]].folder + ": " : "") + record["run"].get<std::string>();
    if (&reference == &record) {
      text += folded("Every setting in effect of " + name, settings_text(record.value("config", Json::object())), set.sources.size() == 1);
      continue;
    }
    rows.push_back({name, record.value("noise", false) ? "nothing: the baseline, measured again"
                                                       : changes_text(reference.value("config", Json::object()), record.value("config", Json::object()))});
  }
  if (rows.empty()) return text;
  auto list = table({"run", "what differs from it in the effective settings"}, rows, 2);
  return text + (rows.size() > 20 ? folded(fmt::format("What differs from it in each of the other {} runs", rows.size()), list) : list);
}

/// What the records have at a path; several values are listed, the first four.
std::string values_at(const std::vector<Json>& records, std::initializer_list<const char*> path) {
  std::set<std::string> values;
  for (const auto& record : records) values.insert(escaped(record_text(record, path), 200));
  const auto shown = std::min<std::size_t>(values.size(), 4);
  const auto last = std::next(values.begin(), static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{}{}", fmt::join(values.begin(), last, "; "), shown < values.size() ? fmt::format("; and {} more", values.size() - shown) : "");
}

std::string environment(const std::vector<Json>& records) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& title, std::initializer_list<const char*> path) {
    if (const auto values = values_at(records, path); values != "?") rows.push_back({title, values});
  };
  add("model", {"model"});
  add("model, SHA-256", {"model_sha256"});
  for (const char* key : {"host", "cpu", "cores", "threads", "emulated", "os", "version", "commit", "build_id", "sources", "peak_rss_of"}) add(key, {"environment", key});
  for (const char* key : {"text", "text_sha256", "protocol", "window", "windows", "first_scored", "bos", "prompts", "prompts_sha256", "max_tokens"})
    add(std::string("evaluation: ") + key, {"evaluation", key});
  add("seed", {"seed"});
  add("repeats of timings", {"repeat"});
  std::string first = "?", last = "?";
  for (const auto& record : records) {
    const auto started = record_text(record, {"environment", "started"});
    if (started == "?") continue;
    if (first == "?" || started < first) first = started;
    if (last == "?" || started > last) last = started;
  }
  if (first != "?") rows.push_back({"runs started", first + " to " + last});
  return table({}, rows, 2);
}

std::vector<Json> records_of(const RecordSet& set, std::size_t source) {
  std::vector<Json> records;
  for (std::size_t i = 0; i < set.records.size(); ++i)
    if (set.source_of[i] == source) records.push_back(set.records[i]);
  return records;
}

/// JSON is YAML: the experiment as it was read can be saved and run.
std::string reproduction(const RecordSet& set) {
  std::string text;
  for (std::size_t s = 0; s < set.sources.size(); ++s) {
    const auto& source = set.sources[s];
    if (!source.yaml.is_object()) continue;
    const auto name = source.yaml.contains("name") && source.yaml["name"].is_string() ? source.yaml["name"].get<std::string>() : "experiment";
    text += fmt::format("<p>With the sources of commit <code>{}</code>, save the experiment as <code>experiment.yaml</code>, then:</p>\n"
                        "<pre>patchbay run experiment.yaml --out results/again\npatchbay report {} results/again</pre>\n",
                        html(values_at(records_of(set, s), {"environment", "commit"})), html(escaped(source.folder)));
    text += folded("experiment.yaml of " + name, "<pre>" + html(source.yaml.dump(2)) + "</pre>\n");
  }
  return text.empty() ? "<p class=\"faint\">No experiment.json lies beside these records: their configurations are above.</p>\n" : text;
}

std::string title_of(const RecordSet& set) {
  std::vector<std::string> names;
  for (const auto& record : set.records)
    if (const auto name = record["name"].get<std::string>(); std::ranges::find(names, name) == names.end()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string html(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(letter) < 0x20 && letter != '\n' && letter != '\t' ? ' ' : letter;
    }
  }
  return out;
}

std::string report_html(const RecordSet& set, const std::vector<Plot>& plots, const std::string& remark) {
  const auto records = merged_records(set);
  std::string page = kPageBeginning + fmt::format(fmt::runtime(kHead), html(title_of(set)) + " - patchbay");
  page += fmt::format("<h1>{}</h1>\n", html(title_of(set)));
  for (const auto& source : set.sources)
    if (!source.note.empty()) page += fmt::format("<p class=\"lead\">{}</p>\n", html(source.note));
  page += fmt::format("<p class=\"faint\">{} runs of {} by patchbay {}; quality, bytes and time with 95% intervals.</p>\n", records.size(),
                      html(common_text(records, {"model"})), html(common_text(records, {"environment", "version"})));
  page += section("Results", results(set, records));
  page += section("Quality against bytes and against speed", plots_part(plots, remark));
  page += roofline(records);
  page += section("Configuration", configuration(set));
  page += section("Environment", environment(without_noise(records)));
  page += section("To reproduce", reproduction(set));
  return page + "</body>\n</html>\n";
}

}  // namespace patchbay
