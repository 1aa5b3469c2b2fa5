#include "backends/cpu/csrc/ops/fields.h"

#include <limits>
#include <stdexcept>
#include <utility>

namespace unladen::cpu {
namespace {

template <class T>
T *at(uintptr_t address) {
    return reinterpret_cast<T *>(address);
}

std::string listed(const std::set<std::string> &names) {
    if (names.empty()) return "none";
    std::string all;
    for (const std::string &name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
}

bool fits_int(int64_t n) {
    return n >= std::numeric_limits<int>::min() && n <= std::numeric_limits<int>::max();
}

}  // namespace

void Fields::refuse(const std::string &why) const {
    throw std::invalid_argument("the CPU's kernel of " + node_.op + " (node " + node_.name + "): " +
                                why);
}

void Fields::require(bool condition, const std::string &what) const {
    if (!condition) refuse(what);
}

Rows Fields::rows_of(const Value &value) const {
    if (value.rows == "T") return Rows::tokens;
    if (value.rows == "S") return Rows::outputs;
    if (value.rows == "R") return Rows::brought;
    refuse("rows are T, S or R, not " + value.rows);
}

const Value &Fields::checked(const Value &value, const char *what, const char *type) const {
    if (value.type != type)
        refuse(std::string(what) + " of type " + value.type + ", where " + type + " is taken");
    return value;
}

const Value &Fields::take_input(const char *type) {
    if (!has_input()) refuse("it has " + std::to_string(next_input_) + " inputs, too few");
    return checked(node_.inputs[next_input_++], "an input", type);
}

const Value &Fields::take_output(const char *type) {
    if (!has_output()) refuse("it has " + std::to_string(next_output_) + " outputs, too few");
    return checked(node_.outputs[next_output_++], "an output", type);
}

Input Fields::input() {
    const Value &v = take_input("f32");
    return {at<const float>(v.address), rows_of(v), v.n_cols};
}

IntInput Fields::int_input() {
    const Value &v = take_input("i32");
    return {at<const int32_t>(v.address), rows_of(v), v.n_cols};
}

Output Fields::output() {
    const Value &v = take_output("f32");
    return {at<float>(v.address), rows_of(v), v.n_cols};
}

IntOutput Fields::int_output() { return {at<int32_t>(take_output("i32").address)}; }

std::vector<Input> Fields::inputs(size_t n_after) {
    std::vector<Input> all;
    while (next_input_ + n_after < node_.inputs.size()) all.push_back(input());
    return all;
}

std::vector<Output> Fields::outputs() {
    std::vector<Output> all;
    while (has_output()) all.push_back(output());
    return all;
}

Vector Fields::vector(const std::string &role) {
    roles_.insert(role);
    const auto found = node_.weights.find(role);
    if (found == node_.weights.end()) refuse("it has no weight " + role);
    const Tensor &t = found->second;
    if (t.type != "F32") refuse("weight " + role + " is " + t.type + ", where F32 is taken");
    int64_t n = 1;
    for (int64_t size : t.shape) n *= size;
    if (!fits_int(n)) refuse("weight " + role + " is too large");
    return {at<const float>(t.address), static_cast<int>(n)};
}

Vector Fields::vector_if(const std::string &role) {
    roles_.insert(role);
    return has_weight(role) ? vector(role) : Vector{};
}

Matrix Fields::matrix(const std::string &role, const std::string &bias_role) {
    roles_.insert(role);
    const auto found = node_.weights.find(role);
    if (found == node_.weights.end()) refuse("it has no weight " + role);
    const Tensor &t = found->second;
    if (t.shape.empty()) refuse("weight " + role + " is no matrix");
    int64_t n_rows = 1;
    for (size_t i = 0; i + 1 < t.shape.size(); i++) n_rows *= t.shape[i];
    if (!fits_int(n_rows) || !fits_int(t.shape.back())) refuse("weight " + role + " is too large");
    Matrix m;
    m.data = at<const uint8_t>(t.address);
    m.type = t.type;
    m.n_rows = static_cast<int>(n_rows);
    m.n_cols = static_cast<int>(t.shape.back());
    m.n_stacked = t.shape.size() == 3 ? static_cast<int>(t.shape[0]) : 1;
    if (!bias_role.empty()) {
        const Vector bias = vector_if(bias_role);
        m.bias = bias.data;
        require(bias.n == 0 || bias.n == m.n_rows || t.shape.size() == 3,
                "weight " + bias_role + " has another size than the rows of " + role);
    }
    return m;
}

Matrix Fields::matrix_if(const std::string &role, const std::string &bias_role) {
    roles_.insert(role);
    return has_weight(role) ? matrix(role, bias_role) : Matrix{};
}

const Attribute &Fields::attribute(const std::string &name) {
    names_.insert(name);
    const auto found = node_.attributes.find(name);
    if (found == node_.attributes.end()) refuse("it has no attribute " + name);
    return found->second;
}

int Fields::integer(const std::string &name) {
    const auto *value = std::get_if<int64_t>(&attribute(name));
    if (!value || !fits_int(*value)) refuse("attribute " + name + " is no whole number of 32 bits");
    return static_cast<int>(*value);
}

int Fields::integer(const std::string &name, int otherwise) {
    names_.insert(name);
    return has_attribute(name) ? integer(name) : otherwise;
}

double Fields::number(const std::string &name) {
    const Attribute &value = attribute(name);
    if (const auto *whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    const auto *number = std::get_if<double>(&value);
    if (!number) refuse("attribute " + name + " is no number");
    return *number;
}

double Fields::number(const std::string &name, double otherwise) {
    names_.insert(name);
    return has_attribute(name) ? number(name) : otherwise;
}

bool Fields::flag(const std::string &name, bool otherwise) {
    names_.insert(name);
    if (!has_attribute(name)) return otherwise;
    const auto *value = std::get_if<bool>(&attribute(name));
    if (!value) refuse("attribute " + name + " is neither True nor False");
    return *value;
}

const std::string &Fields::text(const std::string &name) {
    const auto *value = std::get_if<std::string>(&attribute(name));
    if (!value) refuse("attribute " + name + " is no text");
    return *value;
}

std::vector<double> Fields::numbers(const std::string &name) {
    const auto *value = std::get_if<std::vector<double>>(&attribute(name));
    if (!value) refuse("attribute " + name + " is no list of numbers");
    return *value;
}

Slots Fields::slots() {
    takes_slots_ = true;
    if (!node_.slots) refuse("it has no recurrent state");
    return *node_.slots;
}

int Fields::first_column() const { return node_.first_column; }

KVView Fields::kv() {
    takes_kv_ = true;
    if (!node_.kv) refuse("it has no cache");
    return *node_.kv;
}

const Joined &Fields::joined() {
    takes_joined_ = true;
    return node_.joined;
}

void Fields::finish() const {
    for (const auto &[name, value] : node_.attributes)
        if (!names_.count(name))
            refuse("attribute " + name + " is unknown to it; known: " + listed(names_));
    for (const auto &[role, tensor] : node_.weights)
        if (!roles_.count(role))
            refuse("weight " + role + " is unknown to it; known: " + listed(roles_));
    if (has_input())
        refuse("it takes " + std::to_string(next_input_) + " inputs, not " +
               std::to_string(node_.inputs.size()));
    if (has_output())
        refuse("it makes " + std::to_string(next_output_) + " outputs, not " +
               std::to_string(node_.outputs.size()));
    if (node_.slots && !takes_slots_) refuse("it keeps no recurrent state");
    if (node_.kv && !takes_kv_) refuse("it has nothing to do with a cache");
    if (node_.joined.is_any() && !takes_joined_) refuse("it does no work of its neighbours");
}

}  // namespace unladen::cpu
