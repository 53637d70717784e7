// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "command_line.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include <shardwise/base/text.hpp>
#include <shardwise/kernel/gemm.hpp>

#include "option_names.hpp"

namespace tools {

namespace {

constexpr std::size_t help_width = 100, text_column = 30;

// ---- Errors ----------------------------------------------------------------------------------------------------
bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }

/// The choices of an option as "{a,b}", or nothing.
std::string choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  return begin == type.npos ? "" : type.substr(begin, type.rfind('}') + 1 - begin);
}
/// The choices as "a, b".
std::string listed(const std::string& choices) {
  return CLI::detail::find_and_replace(choices.substr(1, choices.size() - 2), ",", ", ");
}

/// The value of an option as --help shows it: "N", "X", "PATH", "{a,b}".
std::string value_of(const CLI::Option& option) {
  if (is_flag(option)) return "";
  const std::string type = option.get_type_name();
  std::string value = "TEXT";
  if (type.find("SIZE") != type.npos) {
    value = "SIZE";
  } else if (type.find("FLOAT") != type.npos) {
    value = "X";
  } else if (type.find("INT") != type.npos) {
    value = "N";
  } else if (const std::string choices = choices_of(option); !choices.empty()) {
    value = choices.size() > text_column ? "NAME" : choices;
  } else if (!type.starts_with("TEXT")) {
    value = type.substr(0, type.find(':'));
  }
  const int least = option.get_items_expected_min(), most = option.get_items_expected_max();
  if (least == 0) return "[" + value + "]";
  if (most == CLI::detail::expected_max_vector_size) return value + " ...";
  std::string values = value;
  for (int i = 1; i < most; ++i) values += i < least ? " " + value : " [" + value + "]";
  return values;
}

/// The values of an option that are right: "a whole number from 1 to 512".
std::string right_values(const CLI::Option& option) {
  if (const std::string choices = choices_of(option); !choices.empty()) return "one of " + listed(choices);
  if (is_flag(option)) return "true or false";
  const std::string type = option.get_type_name();
  const bool whole = type.find("INT") != type.npos;
  const std::string number = whole ? "a whole number" : "a number";
  if (type.find("NONNEGATIVE") != type.npos) return number + ", 0 or more";
  if (type.find("POSITIVE") != type.npos) return number + " above 0";
  const std::size_t range = type.find(" in [");
  if (range == type.npos) return number;
  const std::string bounds = type.substr(range + 5, type.find(']') - range - 5);
  return number + " from " + CLI::detail::find_and_replace(bounds, " - ", " to ");
}

/// CLI11's error, in words about the option and its values.
std::string option_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what(), kind = error.get_name();
  if (kind == "FileError")
    return "--config: " + text.substr(0, text.find(" was not readable")) + " cannot be read";
  if (kind == "RequiresError") return CLI::detail::find_and_replace(text, " requires ", " needs ");
  if (kind == "ExcludesError") return CLI::detail::find_and_replace(text, " excludes ", " does not go with ");
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    std::string words;
    for (const std::string& word : app.remaining()) words += (words.empty() ? "" : " ") + word;
    return words + ": belongs to no option";
  }
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->nonpositional() ? option->get_name() : option->get_type_name();
    if (kind == "RequiredError" && text == option->get_name() + " is required")
      return name + " is missing: " + option->get_description();
    if (text.find(option->get_name() + ":") == text.npos &&
        text.find(" " + option->get_name() + " ") == text.npos)
      continue;
    const std::vector<std::string>& given = option->results();
    if (kind == "ArgumentMismatch") {
      return name + " has " +
             (given.empty() || text.ends_with(" missing") ? "no value"
                                                          : "the values " + CLI::detail::join(given, " ")) +
             ", expected " + (option->get_items_expected_max() == 1 ? "one " : "") + value_of(*option);
    }
    for (const std::string& word : given) {
      const bool unlike = text == "Could not convert: " + option->get_name() + " = " + word;
      if (unlike || text.starts_with(option->get_name() + ": Value " + word + " not in range ") ||
          text.starts_with(option->get_name() + ": " + word + " not in {"))
        return name + " is " + word + ", expected " + right_values(*option);
    }
  }
  return text;
}

/// The message begins with the program's name.
std::string whole_error(const CLI::App* app, const CLI::Error& error) {
  std::string text;
  for (const std::string& word : app->remaining()) {
    if (word.size() < 2 || word[0] != '-' || (word[1] >= '0' && word[1] <= '9')) continue;  // a value
    text += (text.empty() ? "" : "; ") + unknown_option(*app, word.substr(0, word.find('=')));
  }
  if (text.empty()) text = option_error(*app, static_cast<const CLI::ParseError&>(error));
  return app->get_name() + ": " + text + "\nRun with --help for more information.\n";
}

/// Throws `CLI::ValidationError` for an option whose value is NaN, which is in each `CLI::Range`.
void check_numbers(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_type_name().find("FLOAT") == std::string::npos) continue;
    for (const std::string& word : option->results()) {
      if (std::isnan(std::strtod(word.c_str(), nullptr)))
        throw CLI::ValidationError(option->get_name(),
                                   word + " is not a number, expected " + right_values(*option));
    }
  }
}

// ---- --help ----------------------------------------------------------------------------------------------------
/// `text` in lines of at most `help_width` characters, each after `indent` blanks except the first.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string lines, word;
  std::size_t column = indent;
  while (words >> word) {
    if (column > indent && column + 1 + word.size() > help_width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) lines += " ", ++column;
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(Formatter::make_help(app, name, mode), "\n\n\n", "\n\n");
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), 0) + "\n";
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return is_positional ? option->get_type_name() : option->get_name(false, true);
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string value = is_positional ? "" : value_of(*option);
    std::string line = "  " + make_option_name(option, is_positional) + (value.empty() ? "" : " " + value);
    line += line.size() + 2 > text_column ? "\n" + std::string(text_column, ' ')
                                          : std::string(text_column - line.size(), ' ');
    std::string text = option->get_description();
    if (value == "NAME") text += ": " + listed(choices_of(*option));
    for (const CLI::Option* other : option->get_needs()) text += "; needs " + other->get_name();
    if (option->get_required() && !is_positional) text += "; required";
    std::string by_default = is_flag(*option) ? "" : option->get_default_str();
    std::erase_if(by_default, [](char c) { return c == '[' || c == ']'; });  // of several values
    if (!by_default.empty() && text.find("default:") == text.npos)
      text += (option->get_items_expected_min() == 0 ? "; without a value: " : "; default: ") + by_default;
    return line + wrapped(text, text_column);
  }
};

// ---- --version -------------------------------------------------------------------------------------------------
std::string version_text(const std::string& program) {
  char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(mpi, &length);  // may be called before MPI_Init
  const std::string library = mpi;
  return program + " " SHARDWISE_VERSION_AND_COMMIT "\nmatrix products by " + shardwise::kernel::gemm_name() +
         "\n" + library.substr(0, library.find('\n'));
}

}  // namespace

// ---- --config --------------------------------------------------------------------------------------------------
/// Reads TOML as CLI11 does, and rejects what CLI11 would ignore.
class CommandLine::ConfigFile : public CLI::ConfigTOML {
 public:
  explicit ConfigFile(CommandLine& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string path = app_.get_config_ptr()->as<std::string>();
    constexpr std::size_t longest = 256 << 10;  // CLI11 takes long for long lists
    std::string given(longest + 1, '\0');
    input.read(given.data(), static_cast<std::streamsize>(given.size()));
    given.resize(static_cast<std::size_t>(input.gcount()));
    if (given.size() > longest) throw CLI::ConfigError(path + " has more than 256 KiB, expected options");
    std::stringstream text{given};
    if ((text >> std::ws).peek() == '{') {
      if (!app_.get_option_no_throw("--model-config"))
        throw CLI::ConfigError(path + " is JSON, expected TOML with a line such as format = \"pytorch\"");
      app_.note_ = "--config " + path +
                   ": in future give a config.json by --model-config; --config is for options in TOML";
      CLI::ConfigItem model;
      model.name = "model-config";
      model.inputs = {path};
      return {model};
    }
    const std::string whole = with_whole_arrays(text.str(), path);
    const std::map<std::string, int> lines = lines_of_keys(whole, path);
    std::istringstream input_for_cli(whole);
    std::vector<CLI::ConfigItem> all = CLI::ConfigTOML::from_config(input_for_cli);
    for (const CLI::ConfigItem& item : all) {
      const auto line = lines.find(item.name);
      const std::string where = path + (line == lines.end() ? "" : ":" + std::to_string(line->second)) + ": ";
      if (!item.parents.empty())
        throw CLI::ConfigError(path + ": [" + item.parents.front() +
                               "]: there are no tables; write all options above");
      const CLI::Option* option = app_.get_option_no_throw("--" + item.name);
      if (!option) throw CLI::ConfigError(where + unknown_option(app_, item.name));
      if (!option->get_configurable())
        throw CLI::ConfigError(where + item.name + " may only be given on the command line");
      for (const std::string& value : item.inputs) {
        if (value.starts_with('"') || value.starts_with('\''))
          throw CLI::ConfigError(where + item.name + ": unterminated string " + value +
                                 "; strings may not contain quotes or #");
      }
    }
    std::erase_if(all, [&](const CLI::ConfigItem& item) {  // a flag that is off
      return is_flag(*app_.get_option("--" + item.name)) && item.inputs == std::vector<std::string>{"false"};
    });
    return all;
  }

 private:
  /// `text` without comments, and with each array in the line of its key; CLI11 reads few others. The lines that an
  /// array had follow it empty, so that later lines keep their numbers.
  static std::string with_whole_arrays(const std::string& text, const std::string& path) {
    std::string whole;
    std::size_t held = 0;  // ends of lines within the array
    char quote = 0;
    bool value = false, array = false, comment = false;
    for (const char c : text) {
      if (c == '\n') {
        comment = false, quote = 0;
        if (array) {
          whole += ' ', ++held;
          continue;
        }
        value = false;
      } else if (comment) {
        continue;
      } else if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '#') {
        comment = true;
        continue;
      } else if (c == '=') {
        value = true;
      } else if (c == '[' && value) {
        array = true;
      } else if (c == ']' && array) {
        whole += c;
        whole.append(held, '\n');
        array = false, held = 0;
        continue;
      }
      whole += c;
    }
    if (array) throw CLI::ConfigError(path + ": unterminated array: ] is missing");
    return whole;
  }
  /// The first line of each key. Throws for a key that appears twice, of which CLI11 would ignore one.
  static std::map<std::string, int> lines_of_keys(const std::string& text, const std::string& path) {
    std::map<std::string, int> lines;
    std::istringstream input(text);
    std::string line;
    for (int number = 1; std::getline(input, line); ++number) {
      std::string key = line.substr(0, line.find('='));
      const bool sets = key.size() < line.size() && key.find_first_of("[#,") == key.npos;
      CLI::detail::remove_quotes(CLI::detail::trim(key));
      if (const auto [before, fresh] = lines.emplace(key, number); !fresh && sets)
        throw CLI::ConfigError(path + ":" + std::to_string(number) + ": " + key + " is also in line " +
                               std::to_string(before->second));
    }
    return lines;
  }

  CommandLine& app_;
};

CommandLine::CommandLine(std::string description, std::string name)
    : App(std::move(description), std::move(name)) {
  formatter(std::make_shared<HelpText>());
  failure_message(whole_error);
  option_defaults()->always_capture_default();
}

std::optional<CommandLine::Ending> CommandLine::read(int argc, char** argv) {
  option_defaults()->group("Program");  // the last group
  set_help_flag("-h,--help", "print this and exit");
  set_version_flag(
      "--version", [this] { return version_text(get_name()); }, "print the version and exit");
  set_config("--config", "", "read options from this TOML file, such as rate = 3e-4; the command line wins")
      ->type_name("FILE");
  config_formatter(std::make_shared<ConfigFile>(*this));
  add_flag("--print-config", print_config_, "print the given options as such a file and exit")
      ->configurable(false);
  for (CLI::Option* option : get_options()) {
    if (!option->nonpositional()) option->configurable(false);  // a file has only options with names
  }
  try {
    parse(argc, argv);
    check_numbers(*this);
    if (!print_config_) return std::nullopt;
    return Ending{0, [this] {
                    std::printf("%s", config_to_str().c_str());
                    return after_output(0);
                  }};
  } catch (const CLI::ParseError& error) {
    return Ending{error.get_exit_code(), [this, error] { return after_output(exit(error)); }};
  }
}

std::optional<int> CommandLine::read_alone(int argc, char** argv) {
  if (const auto ending = read(argc, argv)) return ending->print();
  print_note();
  return std::nullopt;
}

std::optional<int> CommandLine::answer_without_mpi(int argc, char** argv) {
  for (const char* launched : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID"}) {
    if (std::getenv(launched)) return std::nullopt;
  }
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word != "-h" && word != "--help" && word != "--version") return std::nullopt;
  return read_alone(argc, argv);
}

void CommandLine::print_note() const {
  if (!note_.empty()) std::fprintf(stderr, "%s: %s\n", get_name().c_str(), note_.c_str());
}

std::string command_of(int argc, char** argv) {
  std::string all;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    all += i == 0 ? word.substr(word.rfind('/') + 1) : " " + word;
  }
  return all;
}

int after_output(int code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written) std::fprintf(stderr, "the standard output cannot be written\n");
  return written || code != 0 ? code : 1;
}

std::string shown(std::string text) {
  constexpr std::size_t longest = 1000;
  if (text.size() > longest) text.replace(longest, text.npos, " …");
  unsigned char before = 0;
  for (char& letter : text) {  // control characters, with U+0080 to U+009F
    const auto c = static_cast<unsigned char>(letter);
    if (c < 0x20 || c == 0x7f || (before == 0xc2 && c < 0xa0)) letter = c == '\n' || c == '\t' ? ' ' : '?';
    before = c;
  }
  return text;
}

}  // namespace tools
