#include "tokenizer/csrc/tokenizer.h"

#include <algorithm>
#include <utility>

namespace unladen::tok {
namespace {

// Like isspace() in the C locale.
bool white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Tokens> tokens, std::unique_ptr<const Encoder> encoder)
    : tokens_(std::move(tokens)), encoder_(std::move(encoder)), fresh_after_(size()) {
    for (int32_t id = 0; id < size(); ++id) {
        const std::string_view text = tokens_->vocab->text(id);
        const uint8_t type = tokens_->types[id];
        const bool hidden = type == kControl || type == kUnknown;
        if (!hidden && !(type == kUserDefined && encoder_->looked_for(text))) continue;
        specials_.add(text, id, !hidden);
        // An unknown token stands for a character in the middle of text, so text after it isn't
        // fresh.
        fresh_after_[id] = type != kUnknown;
    }
}

// The first special token from `from` on that may be one.
SpecialTokens::Match Tokenizer::next(std::string_view text, size_t from, bool special,
                                     std::span<const Range> plain) const {
    auto match = specials_.find(text, from, special);
    while (match.id >= 0 && tokens_->types[match.id] != kUserDefined) {
        const auto range = std::partition_point(
            plain.begin(), plain.end(), [&](const Range &r) { return r.end <= match.begin; });
        if (range == plain.end() || range->begin >= match.end) break;
        // A user-defined token is text as well, so it may stand here.
        const auto shown = specials_.find(text, match.begin, false);
        if (shown.id >= 0 && shown.begin == match.begin) return shown;
        match = specials_.find(text, match.begin + 1, special);
    }
    return match;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool special, bool fresh,
                                       std::span<const Range> plain) const {
    std::vector<int32_t> out;
    std::unique_ptr<Workspace> work = workspaces_->take();
    for (size_t from = 0; from < text.size();) {
        const auto match = next(text, from, special, plain);
        const uint8_t strip = match.id < 0 ? 0 : tokens_->strips[match.id];
        size_t stop = match.begin;
        if (strip & kStripLeft)
            while (stop > from && white(text[stop - 1])) --stop;
        if (stop > from) {
            encoder_->encode(text.substr(from, stop - from), fresh, *work, out);
            fresh = false;
        }
        if (match.id < 0) break;
        out.push_back(match.id);
        fresh = starts_fresh(match.id);
        from = match.end;
        if (strip & kStripRight)
            while (from < text.size() && white(text[from])) ++from;
    }
    workspaces_->give_back(std::move(work));
    return out;
}

std::string Tokenizer::piece(int32_t id, bool special, bool fresh) const {
    const uint8_t type = tokens_->types[id];
    if (type == kControl || type == kUnknown)
        return special ? std::string(tokens_->vocab->text(id)) : std::string();
    std::string piece = encoder_->piece(id);
    if (fresh && encoder_->space_prefix() && !starts_fresh(id) && piece.starts_with(' '))
        piece.erase(0, 1);
    return piece;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool special, bool fresh) const {
    std::string out;
    for (const int64_t id : ids) {
        out += piece(static_cast<int32_t>(id), special, fresh);
        fresh = starts_fresh(static_cast<int32_t>(id));
    }
    return out;
}

}  // namespace unladen::tok
