#include "sha256.h"

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#include "cpu_features.h"
#endif

namespace tvm_ios {

namespace {

constexpr std::size_t kBlock = 64;

alignas(16) constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

std::uint32_t Rotated(std::uint32_t word, int by) { return word >> by | word << (32 - by); }

// Takes so many blocks in.
void Add(State* state, const unsigned char* block, std::size_t blocks) {
  for (; blocks != 0; --blocks, block += kBlock) {
    std::array<std::uint32_t, 64> w;
    for (int i = 0; i < 16; ++i) {
      w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
             std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
    }
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t s0 = Rotated(w[i - 15], 7) ^ Rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
      const std::uint32_t s1 = Rotated(w[i - 2], 17) ^ Rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = *state;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t s1 = Rotated(e, 6) ^ Rotated(e, 11) ^ Rotated(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const std::uint32_t s0 = Rotated(a, 2) ^ Rotated(a, 13) ^ Rotated(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const State more = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) (*state)[i] += more[i];
  }
}

#if defined(__x86_64__)
// The same with the processor's own instructions for it, which take an eighth of the time: weights
// are hundreds of megabytes. They want the state as the halves ABEF and CDGH.
__attribute__((target("sha,sse4.1,ssse3"))) void AddByInstructions(State* state,
                                                                   const unsigned char* block,
                                                                   std::size_t blocks) {
  const __m128i big_end_first = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const halves = reinterpret_cast<__m128i*>(state->data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; blocks != 0; --blocks, block += kBlock) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) {
      w[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + i);
      w[i] = _mm_shuffle_epi8(w[i], big_end_first);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // Four rounds each.
      __m128i& words = w[i % 4];
      const __m128i round = _mm_load_si128(reinterpret_cast<const __m128i*>(kRound.data()) + i);
      const __m128i sum = _mm_add_epi32(words, round);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      const __m128i& last = w[(i + 3) % 4];
      words = _mm_sha256msg1_epu32(words, w[(i + 1) % 4]);
      words = _mm_add_epi32(words, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
      words = _mm_sha256msg2_epu32(words, last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(halves, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(halves + 1, _mm_alignr_epi8(dchg, feba, 8));
}
#endif

decltype(&Add) Fastest() {
#if defined(__x86_64__)
  const std::set<std::string> flags = HostFlags();
  if (flags.count("sha_ni") != 0 && flags.count("sse4_1") != 0) return AddByInstructions;
#endif
  return Add;
}

}  // namespace

std::string Sha256(std::string_view bytes, bool portably) {
  static const auto fastest = Fastest();
  const auto add = portably ? Add : fastest;
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::size_t done = bytes.size() / kBlock * kBlock;
  add(&state, data, done / kBlock);
  // What is left, a one bit, zeros, and the length in bits at the end of the last block.
  std::array<unsigned char, 2 * kBlock> end{};
  const std::size_t left = bytes.size() - done;
  if (left != 0) std::memcpy(end.data(), data + done, left);
  end[left] = 0x80;
  const std::size_t size = left + 9 <= kBlock ? kBlock : 2 * kBlock;
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (int i = 0; i < 8; ++i) end[size - 1 - i] = static_cast<unsigned char>(bits >> 8 * i);
  add(&state, end.data(), size / kBlock);
  std::string digits;
  for (std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
  }
  return digits;
}

}  // namespace tvm_ios
