/// @file ast.h
/// A template as a tree.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/value.h"
#include "patchbay/tensor.h"

namespace patchbay::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
using EachChild = FunctionRef<void(const ExpressionPtr&)>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  ///< *list, **dict; may be null
  void children(EachChild each) const {
    for (const auto& argument : positional) each(argument);
    for (const auto& argument : named) each(argument.second);
    each(more_positional);
    each(more_named);
  }
};

// Expressions. Each calls `each` for its children, some of which may be null.
struct Literal {
  Value value;
  void children(EachChild) const {}
};
struct Name {
  std::string name;
  void children(EachChild) const {}
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
  void children(EachChild each) const { for (const auto& item : items) each(item); }
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
  void children(EachChild each) const { for (const auto& [key, value] : entries) each(key), each(value); }
};
struct Unary {
  char sign;  ///< '-', '+', or '!' for not
  ExpressionPtr operand;
  void children(EachChild each) const { each(operand); }
};
struct Binary {
  std::string sign;  ///< + - * / // % **
  ExpressionPtr left, right;
  void children(EachChild each) const { each(left), each(right); }
};
struct Concat {
  std::vector<ExpressionPtr> parts;
  void children(EachChild each) const { for (const auto& part : parts) each(part); }
};
struct Logic {
  bool is_or;
  ExpressionPtr left, right;
  void children(EachChild each) const { each(left), each(right); }
};
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> rest;  ///< == != < <= > >= in "not in"
  void children(EachChild each) const {
    each(first);
    for (const auto& operand : rest) each(operand.second);
  }
};
struct Conditional {
  ExpressionPtr test, then, otherwise;  ///< no `otherwise`: undefined
  void children(EachChild each) const { each(test), each(then), each(otherwise); }
};
struct Attribute {
  ExpressionPtr target;
  std::string name;
  void children(EachChild each) const { each(target); }
};
struct Item {
  ExpressionPtr target, index;
  void children(EachChild each) const { each(target), each(index); }
};
struct Slice {
  ExpressionPtr target, start, stop, step;
  void children(EachChild each) const { each(target), each(start), each(stop), each(step); }
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
  void children(EachChild each) const { each(callee), arguments.children(each); }
};
struct Filter {
  ExpressionPtr input;  ///< null at the head of a block's filters: the block's text
  std::string name;
  CallArguments arguments;
  void children(EachChild each) const { each(input), arguments.children(each); }
};
struct Test {
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
  bool negated = false;
  void children(EachChild each) const { each(input), arguments.children(each); }
};
/// ns.name, as the target of a set alone.
struct NamespaceTarget {
  std::string space, name;
  void children(EachChild) const {}
};

struct Expression {
  int line = 1;
  int height = 1;
  std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Binary, Concat, Logic, Compare, Conditional, Attribute, Item, Slice, Call, Filter, Test, NamespaceTarget> node;
};

struct Statement;
using Body = std::vector<Statement>;

struct Parameter { std::string name; ExpressionPtr default_value; };

// Statements.
struct Data { Value text; };
struct Print { ExpressionPtr value; };
struct If { std::vector<std::pair<ExpressionPtr, Body>> branches; Body otherwise; };
struct For { ExpressionPtr target, iterable, filter; Body body, otherwise; bool recursive = false; };
struct Set { ExpressionPtr target, value; };
struct SetBlock { ExpressionPtr target, filters; Body body; };  ///< no filters: null
struct MacroBlock {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool takes_more_positional = false, takes_more_named = false, takes_caller = false;  ///< the body asks for varargs, kwargs, caller
};
struct CallBlock { MacroBlock caller; ExpressionPtr call; };
struct FilterBlock { ExpressionPtr filters; Body body; };
struct With { std::vector<std::pair<ExpressionPtr, ExpressionPtr>> variables; Body body; };
struct Generation { Body body; };  ///< transformers' own: marks the assistant's part
struct Break {};
struct Continue {};

struct Statement {
  int line = 1;
  std::variant<Data, Print, If, For, Set, SetBlock, MacroBlock, CallBlock, FilterBlock, With, Generation, Break, Continue> node;
};

}  // namespace patchbay::jinja
