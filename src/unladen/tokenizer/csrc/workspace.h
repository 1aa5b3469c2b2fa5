// Memory that encoding needs, kept from one call to the next.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/csrc/merge.h"
#include "tokenizer/csrc/strings.h"

namespace unladen::tok {

// The ids of words that were encoded before. A few thousand words make up nine tenths of most
// texts, and the ids of a word don't depend on its neighbours.
class WordCache {
 public:
    // If `word` is known, appends its ids and returns true.
    bool find(std::string_view word, uint64_t h, std::vector<int32_t> &out) const {
        if (entries_.empty()) return false;
        const Entry &e = entries_[h & (kEntries - 1)];
        if (e.size != word.size() || std::memcmp(e.text, word.data(), word.size())) return false;
        out.insert(out.end(), e.ids, e.ids + e.n_ids);
        return true;
    }
    // Keeps the ids of `word`, unless it is empty, longer than kMaxBytes or has more than kMaxIds
    // ids.
    void keep(std::string_view word, uint64_t h, std::span<const int32_t> ids) {
        if (word.empty() || word.size() > kMaxBytes || ids.size() > kMaxIds) return;
        if (entries_.empty()) entries_.resize(kEntries);
        Entry &e = entries_[h & (kEntries - 1)];
        e.size = static_cast<uint8_t>(word.size());
        e.n_ids = static_cast<uint8_t>(ids.size());
        std::memcpy(e.text, word.data(), word.size());
        std::memcpy(e.ids, ids.data(), ids.size_bytes());
    }

 private:
    static constexpr size_t kEntries = 1 << 13, kMaxBytes = 30, kMaxIds = 8;
    struct alignas(64) Entry {
        uint8_t size = 0, n_ids;
        char text[kMaxBytes];
        int32_t ids[kMaxIds];
    };
    std::vector<Entry> entries_;
};

// The best tokens for a text up to one position, by the last of them.
struct Best {
    double score;
    int32_t id;
    uint32_t size;  // bytes of the last token
};

struct Workspace {
    WordCache words;
    Merger merger;
    std::string text, word;
    std::vector<Best> path;

    size_t bytes() const {
        return text.capacity() + word.capacity() + path.capacity() * sizeof(Best) + merger.bytes();
    }

    // Appends the ids of `word`. If it isn't known, `encode(word)` appends them, and they are kept
    // unless `unk` is one of them: neighbouring unknown words become one token.
    template <class Encode>
    void remember(std::string_view word, int32_t unk, std::vector<int32_t> &out,
                  Encode &&encode) {
        const uint64_t h = hash(word);
        if (words.find(word, h, out)) return;
        const size_t from = out.size();
        encode(word);
        const std::span<const int32_t> ids(out.begin() + from, out.end());
        for (const int32_t id : ids)
            if (id == unk) return;
        words.keep(word, h, ids);
    }
};

// The workspaces of one tokenizer, one for each thread that encodes at the same time. No thread
// waits for the lock: in a forked child a thread of the parent's may hold it for ever.
class Workspaces {
 public:
    std::unique_ptr<Workspace> take() {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || free_.empty()) return std::make_unique<Workspace>();
        auto last = std::move(free_.back());
        free_.pop_back();
        return last;
    }
    void give_back(std::unique_ptr<Workspace> workspace) {
        if (workspace->bytes() > kMostBytes) return;
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock) free_.push_back(std::move(workspace));
    }

 private:
    // A workspace with more bytes than this, not counting its word cache, is freed after its use.
    static constexpr size_t kMostBytes = 4 << 20;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Workspace>> free_;
};

}  // namespace unladen::tok
