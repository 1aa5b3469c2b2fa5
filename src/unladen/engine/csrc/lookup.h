// Where a sequence's last tokens stood before, and how well that foretells the next one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace unladen::engine {

class Lookup {
public:
    // Tokens that must have stood before in the same order.
    static constexpr size_t n_gram = 3;

    size_t size() const { return tokens_.size(); }
    // Takes in the sequence's next token.
    void add(int32_t token);
    // For each of the next n guesses, or for as many as pay off: the probability that it and all
    // guesses before it are right.
    std::vector<double> chances(size_t n) const;
    // The next n guesses; none where nothing foretells them. What goes beyond the end of the
    // sequence repeats what was guessed: the text goes round in a circle.
    std::vector<int32_t> draft(size_t n) const;

private:
    static constexpr size_t nowhere = 0;
    static constexpr size_t longest = 24;  // matches of so many tokens and more are alike
    static constexpr double learning = 1.0 / 8;
    static constexpr double least_chance = 0.2;

    static size_t level(size_t n_matched) {
        return (n_matched > 4) + (n_matched > 6) + (n_matched > 9) + (n_matched > 15);
    }
    uint64_t last_key() const;
    bool alike(size_t a, size_t b, size_t n) const;

    std::vector<int32_t> tokens_;
    // By a hash of n_gram tokens, where their latest occurrence ends.
    std::unordered_map<uint64_t, size_t> ends_;
    size_t at_ = nowhere;  // of the token that the next one is thought to be
    size_t n_matched_ = 0;
    // How often the next token is the guessed one, by the level of the match; at first a guess too.
    std::array<double, 5> rates_ = {0.3, 0.5, 0.6, 0.7, 0.8};
};

}  // namespace unladen::engine
