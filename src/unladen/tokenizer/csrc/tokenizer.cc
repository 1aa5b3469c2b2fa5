#include "tokenizer/csrc/tokenizer.h"

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

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool special, bool fresh) const {
    std::vector<int32_t> out;
    std::unique_ptr<Workspace> work = workspaces_->take();
    for (size_t from = 0; from < text.size();) {
        const auto match = specials_.find(text, from, special);
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
