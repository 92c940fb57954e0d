// Commands about model files: check, inspect, convert, quantize, tokenize, template.
#include "command_line.h"

namespace patchbay::app {
namespace {

constexpr const char* kQuantizeExamples = R"(Examples:
  patchbay quantize --model tiny-shakespeare --out m.gguf format.type=q4_k_m
  patchbay quantize --model tiny-shakespeare --out m.gguf format.type=q4_0 quantizer.type=gptq calibration.samples=32 'rules=[{match: "*.ffn_down", format: q8_0}]'
  patchbay quantize --model tiny-shakespeare --out folder format.type=int_grouped format.bits=4 'transforms=[awq]'
All settings: docs/quantizing.md; what there is: patchbay list quantizers (formats, transforms); patchbay describe formats/int_grouped)";

}  // namespace

void add_check(CLI::App& app, Outcome& outcome) {
  add<CheckOptions>(
      app, outcome, "check", "Whether a model file or an experiment is sound: 0, or 1 and the reason",
      [](CLI::App& command, CheckOptions& options) {
        path(command, "file", options.file,
             "A model (GGUF, a Hugging Face folder, safetensors), its name, an experiment or a description in configs/models (.yaml), a tokenizer.json")
            ->required();
        json_flag(command, options.json);
      },
      check);
}

void add_inspect(CLI::App& app, Outcome& outcome) {
  add<InspectOptions>(
      app, outcome, "inspect", "What a model file or folder holds",
      [](CLI::App& command, InspectOptions& options) {
        command.add_option("model,--model", options.model.model, "Required, here or as --model: a GGUF file, a Hugging Face folder, or the name of a file in configs/models")
            ->required()->option_text("TEXT");
        threads(command, options.model.threads);
        json_flag(command, options.model.json);
        command.add_flag("--tensors", options.tensors, "Every tensor, its type, size and shape");
        assignments(command, options.model.assignments);
      },
      inspect);
}

void add_convert(CLI::App& app, Outcome& outcome) {
  add<ConvertCommandOptions>(app, outcome, "convert", "A Hugging Face folder as a GGUF file, or a GGUF file as a folder",
                             [](CLI::App& command, ConvertCommandOptions& options) {
                               path(command, "in", options.in, "A Hugging Face folder, or a GGUF file (or its name in configs/models)")->required();
                               path(command, "out", options.out, "What to write: of a folder a GGUF file, of a GGUF file a folder")->required();
                               command.add_option("--type", options.type, "Of the weight matrices: f32, f16 or bf16; else as they are stored, quantised ones rounded to f16")
                                   ->check(CLI::IsMember({"f32", "f16", "bf16"}));
                               command.add_flag("--force", options.force, "Replace what is there");
                               json_flag(command, options.json);
                             }, convert);
}

void add_quantize(CLI::App& app, Outcome& outcome) {
  add<QuantizeCommandOptions>(app, outcome, "quantize", "A model's weights in fewer bits, as a GGUF file or a Hugging Face folder",
                              [](CLI::App& command, QuantizeCommandOptions& options) {
                                model(command, options.model);
                                path(command, "--out", options.out, "What to write: NAME.gguf, or a folder")->required();
                                command.add_option("--layout", options.layout, "Of a folder's weights: gptq, gptq_v2, awq, awq_gemv, compressed-tensors; else by the format");
                                command.add_flag("--force", options.force, "Replace what is there");
                                command.add_flag("--quiet", options.quiet, "No progress");
                                assignments(command, options.model.assignments,
                                            "Settings, as under weights: in YAML: quantizer, format, transforms, calibration, rules, targets, bits_by_sensitivity");
                                command.footer(kQuantizeExamples);
                              }, quantize);
}

void add_tokenize(CLI::App& app, Outcome& outcome) {
  add<TokenizeOptions>(
      app, outcome, "tokenize", "The tokens of a text",
      [](CLI::App& command, TokenizeOptions& options) {
        model(command, options.model);
        command.get_option("--model")->required(false);
        path(command, "--tokenizer", options.tokenizer, "Instead of --model: a tokenizer.json, a folder that holds one, or a GGUF file");
        command.add_option("text", options.text, "The text");
        path(command, "--file", options.file, "A file that holds the text");
        command.add_flag("--parse-special", options.parse_special, "Text of special tokens becomes those tokens");
        command.add_flag("--add-special", options.add_special, "Begin and end as the model says (BOS, EOS)");
        assignments(command, options.model.assignments);
      },
      tokenize);
}

void add_template(CLI::App& app, Outcome& outcome) {
  add<TemplateOptions>(app, outcome, "template", "What a chat template makes of messages: the text and its tokens",
                       [](CLI::App& command, TemplateOptions& options) {
                         model(command, options.model);
                         path(command, "--messages", options.messages, "A JSON file, or - for standard input: [{\"role\": \"user\", \"content\": \"...\"}, ...]")->required();
                         path(command, "--tools", options.tools, "A JSON file with tools");
                         path(command, "--variables", options.variables, "A JSON file with more names for the template (enable_thinking)");
                         path(command, "--template", options.chat_template, "A file with a chat template, instead of the model's own");
                         command.add_flag("--no-generation-prompt", options.no_generation_prompt, "Leave out what opens the answer");
                       }, show_template);
}

}  // namespace patchbay::app
