// Commands about plugins: list, describe, new.
#include "command_line.h"

namespace patchbay::app {

void add_list(CLI::App& app, Outcome& outcome) {
  add<ListOptions>(
      app, outcome, "list", "The plugins, by kind; `list kernels`: every kernel",
      [](CLI::App& command, ListOptions& options) {
        command.add_option("what", options.what, "A kind of plugin, or kernels");
        command.add_option("of", options.of, "With kernels: those of one plugin (flash, formats/q4_k), kind or backend (cpu, cuda) alone");
        command.add_flag("--verbose", options.verbose, "Each refused plugin by itself");
        json_flag(command, options.json);
      },
      list);
}

void add_describe(CLI::App& app, Outcome& outcome) {
  add<DescribeOptions>(
      app, outcome, "describe", "One plugin: its parameters and kernels",
      [](CLI::App& command, DescribeOptions& options) {
        command.add_option("name", options.name, "kind/name, or a name that is unique")->required();
        CLI::Option* json = json_flag(command, options.json);
        command.add_flag("--markdown", options.markdown, "The parameter table of the plugin's README")->excludes(json);
      },
      describe);
}

void add_new(CLI::App& app, Outcome& outcome) {
  add<NewOptions>(app, outcome, "new", "A folder for a new plugin, made from the simplest of its kind",
                  [](CLI::App& command, NewOptions& options) {
                    command.add_option("kind", options.kind, "A kind of plugin, as `patchbay list` heads them (quantizers)")->required();
                    command.add_option("name", options.name, "The plugin's name: a-z, 0-9 and _")->required();
                    path(command, "--dir", options.dir, "Where KIND/NAME is made; else plugins, in the current folder");
                  }, new_plugin);
}

}  // namespace patchbay::app
