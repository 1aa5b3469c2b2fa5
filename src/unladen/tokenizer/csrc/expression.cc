#include "tokenizer/csrc/expression.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace unladen::tok {
namespace {

constexpr uint32_t kMany = UINT32_MAX;

bool in(const std::vector<std::pair<uint32_t, uint32_t>> &ranges, uint32_t code) {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                        [](uint32_t c, const auto &r) { return c < r.first; });
    return after != ranges.begin() && code <= std::prev(after)->second;
}

// Sorts ranges and joins those that overlap, so that a binary search works.
void merge(std::vector<std::pair<uint32_t, uint32_t>> &ranges) {
    std::sort(ranges.begin(), ranges.end());
    size_t n = 0;
    for (const auto &range : ranges) {
        if (n && range.first <= ranges[n - 1].second)
            ranges[n - 1].second = std::max(ranges[n - 1].second, range.second);
        else
            ranges[n++] = range;
    }
    ranges.resize(n);
}

uint32_t category(std::string_view name) {
    constexpr std::pair<std::string_view, uint32_t> known[] = {
        {"L", kLetter},      {"N", kNumber},  {"P", kPunctuation}, {"S", kSymbol},
        {"M", kMark},        {"Z", kSeparator}, {"Lu", kUpper},    {"Ll", kLower},
        {"Lt", kTitle},      {"Lm", kModifier}, {"Lo", kOtherLetter}, {"Nd", kDigit},
    };
    for (const auto &[text, bit] : known)
        if (text == name) return bit;
    throw std::invalid_argument("no category " + std::string(name));
}

}  // namespace

bool Expression::Set::slow(const Char &c) const {
    const bool listed = (c.classes & classes) || in(ranges, c.code);
    return listed != negated && !(c.classes & without_classes) && !in(without, c.code);
}

void Expression::Set::finish() {
    merge(ranges);
    merge(without);
    for (uint32_t code = 0; code < 128; ++code) ascii[code] = slow({code, 1, classes_of(code)});
}

// Parses an expression by recursive descent. Each rule returns its nodes.
class ExpressionParser {
 public:
    ExpressionParser(std::string_view pattern, Expression *out)
        : p_(pattern.data()), end_(p_ + pattern.size()), out_(out) {}

    void parse() {
        out_->nodes_ = alternatives();
        if (p_ != end_) fail("an unmatched )");
        out_->nodes_.push_back({Op::kMatch});
        for (Set &set : out_->sets_) set.finish();
    }

 private:
    using Op = Expression::Op;
    using Set = Expression::Set;
    using Code = std::vector<Expression::Node>;

    [[noreturn]] static void fail(const std::string &what) {
        throw std::invalid_argument("expression has " + what);
    }
    bool take(std::string_view text) {
        if (!std::string_view(p_, end_ - p_).starts_with(text)) return false;
        p_ += text.size();
        return true;
    }
    uint32_t next() {
        if (p_ == end_) fail("an early end");
        const Char c = char_at(p_, end_);
        p_ += c.size;
        return c.code;
    }
    static void append(Code &to, const Code &from) {
        to.insert(to.end(), from.begin(), from.end());
    }
    static int32_t length(const Code &code) { return static_cast<int32_t>(code.size()); }

    Code alternatives() {
        Code first = sequence();
        if (!take("|")) return first;
        const Code second = alternatives();
        Code out{{.op = Op::kTry, .to = length(first) + 2}};
        append(out, first);
        out.push_back({.op = Op::kJump, .to = length(second) + 1});
        append(out, second);
        return out;
    }

    Code sequence() {
        Code out;
        while (p_ < end_ && *p_ != '|' && *p_ != ')') append(out, repeated(atom()));
        return out;
    }

    uint32_t number() {
        uint32_t value = 0;
        while (p_ < end_ && *p_ >= '0' && *p_ <= '9' && value < 100000)
            value = value * 10 + *p_++ - '0';
        return value;
    }

    Code repeated(Code code) {
        uint32_t min = 1, max = 1;
        if (take("?")) min = 0;
        else if (take("*")) min = 0, max = kMany;
        else if (take("+")) max = kMany;
        else if (take("{")) {
            min = max = number();
            if (take(",")) max = p_ < end_ && *p_ != '}' ? number() : kMany;
            if (!take("}")) fail("an open {");
        } else return code;
        if (code.size() == 1 && code[0].op == Op::kSet && code[0].min == 1 && code[0].max == 1) {
            code[0].min = min;
            code[0].max = max;
            return code;
        }
        if (min > 16 || (max != kMany && max > 16)) fail("a group repeated too often");
        Code out;
        for (uint32_t i = 0; i < min; ++i) append(out, code);
        if (max == kMany) {
            out.push_back({.op = Op::kTry, .to = length(code) + 2});
            append(out, code);
            out.push_back({.op = Op::kJump, .to = -length(code) - 1});
        }
        for (uint32_t i = min; max != kMany && i < max; ++i) {
            const auto left = static_cast<int32_t>(max - i);
            out.push_back({.op = Op::kTry, .to = left * (length(code) + 1)});
            append(out, code);
        }
        return out;
    }

    Code atom() {
        if (take("(")) return group();
        Set set;
        if (take("[")) set = bracket();
        else member(set, false);
        out_->sets_.push_back(std::move(set));
        return {{.op = Op::kSet, .set = static_cast<int32_t>(out_->sets_.size()) - 1}};
    }

    Code group() {
        const bool fold = fold_;
        Op ahead = Op::kMatch;
        if (take("?=")) ahead = Op::kAhead;
        else if (take("?!")) ahead = Op::kNotAhead;
        else if (take("?i:")) fold_ = true;
        else take("?:");
        Code body = alternatives();
        fold_ = fold;
        if (!take(")")) fail("an open (");
        if (ahead == Op::kMatch) return body;
        Code out{{.op = ahead, .to = length(body) + 2}};
        append(out, body);
        out.push_back({Op::kMatch});
        return out;
    }

    Set bracket() {
        Set set;
        set.negated = take("^");
        while (!take("]")) {
            if (take("&&[^")) {
                Set other;
                while (!take("]")) member(other, true);
                set.without = std::move(other.ranges);
                set.without_classes = other.classes;
            } else member(set, true);
        }
        return set;
    }

    void add(Set &set, uint32_t first, uint32_t last) const {
        set.ranges.emplace_back(first, last);
        const uint32_t lower = first | 0x20;
        if (!fold_ || first != last || lower < 'a' || lower > 'z') return;
        set.ranges.emplace_back(lower, lower);
        set.ranges.emplace_back(lower - 0x20, lower - 0x20);
        if (lower == 's') set.ranges.emplace_back(0x17F, 0x17F);
    }

    // One character, a class or, in brackets, a range of characters.
    void member(Set &set, bool in_brackets) {
        uint32_t first = next();
        if (first == '\\' && !escape(set, &first)) {
            if (set.negated && in_brackets && p_[-1] == 'S') fail("\\S in brackets");
            return;
        }
        uint32_t last = first;
        if (in_brackets && end_ - p_ > 1 && *p_ == '-' && p_[1] != ']') {
            ++p_;
            last = next();
            if (last == '\\' && !escape(set, &last)) fail("a range up to a class");
        }
        if (last < first) fail("a range that ends before it starts");
        add(set, first, last);
    }

    // Parses an escape. Returns whether it is a character, and stores that in *code; a class is
    // added to the set instead.
    bool escape(Set &set, uint32_t *code) {
        *code = next();
        switch (*code) {
            case 'n': *code = '\n'; return true;
            case 'r': *code = '\r'; return true;
            case 't': *code = '\t'; return true;
            case 's': set.classes |= kSpace; return false;
            case 'S': set.classes |= kSpace; set.negated = true; return false;
            case 'd': set.classes |= kDigit; return false;
            case 'p': case 'x': break;
            default:
                if ((*code | 0x20) >= 'a' && (*code | 0x20) <= 'z') fail("an unknown escape");
                return true;
        }
        const std::string_view rest(p_, end_ - p_);
        const size_t stop = rest.find('}');
        if (!rest.starts_with('{') || stop == rest.npos) fail("an escape without {}");
        const std::string name(rest.substr(1, stop - 1));
        p_ += stop + 1;
        if (*code == 'p') {
            set.classes |= category(name);
            return false;
        }
        *code = static_cast<uint32_t>(std::stoul(name, nullptr, 16));
        return true;
    }

    const char *p_, *end_;
    Expression *out_;
    bool fold_ = false;
};

Expression::Expression(std::string_view pattern) { ExpressionParser(pattern, this).parse(); }

const char *Expression::match(const char *p, const char *end) const {
    thread_local std::vector<Frame> frames;
    const char *stop = run(0, p, end, frames);
    return stop ? stop : p;
}

const char *Expression::run(int32_t pc, const char *p, const char *end,
                            std::vector<Frame> &frames) const {
    const size_t base = frames.size();
    for (;;) {
        const Node &node = nodes_[pc];
        bool going = true;
        switch (node.op) {
            case Op::kMatch:
                frames.resize(base);
                return p;
            case Op::kTry:
                frames.push_back({pc + node.to, p, p});
                ++pc;
                break;
            case Op::kJump:
                pc += node.to;
                break;
            case Op::kAhead:
            case Op::kNotAhead:
                going = (run(pc + 1, p, end, frames) != nullptr) == (node.op == Op::kAhead);
                pc += node.to;
                break;
            case Op::kSet: {
                const Set &set = sets_[node.set];
                const char *least = node.min ? nullptr : p, *last = p;
                for (uint32_t n = 0; n < node.max && p < end;) {
                    const Char c = char_at(p, end);
                    if (!set.has(c)) break;
                    last = p;
                    p += c.size;
                    if (++n == node.min) least = p;
                }
                ++pc;
                going = least != nullptr;
                if (going && p > least) frames.push_back({pc, last, least});
            }
        }
        if (going) continue;
        if (frames.size() == base) return nullptr;
        Frame &frame = frames.back();
        pc = frame.pc;
        p = frame.p;
        if (p == frame.least) {
            frames.pop_back();
            continue;
        }
        do --frame.p;
        while (frame.p > frame.least && (*frame.p & 0xC0) == 0x80);
    }
}

}  // namespace unladen::tok
