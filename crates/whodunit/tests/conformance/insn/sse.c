// SSE to SSE4.2: arithmetic, shuffles, conversions, comparisons, string instructions, non-temporal stores.
//@ cc: -O1 -msse4.2 -mpopcnt -ffp-contract=off
#include "check.h"
#include <immintrin.h>

static void show(const char *name, __m128i value) {
    unsigned char bytes[16];
    _mm_storeu_si128((__m128i *)bytes, value);
    printf("%-12s", name);
    for (int i = 0; i < 16; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
}
static void showd(const char *name, __m128d value) { show(name, _mm_castpd_si128(value)); }
static void shows(const char *name, __m128 value) { show(name, _mm_castps_si128(value)); }

int main(void) {
    volatile float fa[4] = {1.5f, -2.25f, 1e30f, 0.1f}, fb[4] = {3.0f, 7.5f, 1e-30f, -0.3f};
    __m128 a = _mm_set_ps(fa[3], fa[2], fa[1], fa[0]), b = _mm_set_ps(fb[3], fb[2], fb[1], fb[0]);
    shows("addps", _mm_add_ps(a, b));
    shows("mulps", _mm_mul_ps(a, b));
    shows("divps", _mm_div_ps(a, b));
    shows("sqrtps", _mm_sqrt_ps(_mm_mul_ps(a, a)));
    shows("minps", _mm_min_ps(a, b));
    shows("cmpltps", _mm_cmplt_ps(a, b));
    shows("shufps", _mm_shuffle_ps(a, b, 0x1b));
    shows("addsubps", _mm_addsub_ps(a, b));
    shows("haddps", _mm_hadd_ps(a, b));
    shows("dpps", _mm_dp_ps(a, b, 0xf1));
    shows("roundps", _mm_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    printf("movmskps %d\n", _mm_movemask_ps(a));
    __m128d c = _mm_set_pd(fa[1], 3.75), d = _mm_set_pd(fb[0], -1.0);
    showd("addpd", _mm_add_pd(c, d));
    showd("divpd", _mm_div_pd(c, d));
    showd("unpckhpd", _mm_unpackhi_pd(c, d));
    printf("cvttsd2si %lld %d\n", (long long)_mm_cvttsd_si64(c), _mm_cvtsd_si32(d));
    showd("cvtdq2pd", _mm_cvtepi32_pd(_mm_set_epi32(1, 2, -3, 4)));
    printf("comisd %d %d %d\n", _mm_comilt_sd(c, d), _mm_comigt_sd(c, d), _mm_comieq_sd(c, c));

    __m128i x = _mm_set_epi8(15, -14, 13, -12, 11, -10, 9, -8, 7, -6, 5, -4, 3, -2, 1, -128);
    __m128i y = _mm_set1_epi16(0x0305);
    show("paddb", _mm_add_epi8(x, y));
    show("psubusw", _mm_subs_epu16(x, y));
    show("pmullw", _mm_mullo_epi16(x, y));
    show("pmaddwd", _mm_madd_epi16(x, y));
    show("psadbw", _mm_sad_epu8(x, y));
    show("pshufd", _mm_shuffle_epi32(x, 0x4e));
    show("pshufb", _mm_shuffle_epi8(x, y));
    show("palignr", _mm_alignr_epi8(x, y, 5));
    show("pabsb", _mm_abs_epi8(x));
    show("psignw", _mm_sign_epi16(y, x));
    show("pmulld", _mm_mullo_epi32(x, y));
    show("pblendvb", _mm_blendv_epi8(x, y, x));
    show("pminsb", _mm_min_epi8(x, y));
    show("packuswb", _mm_packus_epi16(x, y));
    show("pslldq", _mm_slli_si128(x, 3));
    show("psrlq", _mm_srl_epi64(x, _mm_cvtsi32_si128(7)));
    show("pcmpgtq", _mm_cmpgt_epi64(x, y));
    show("mpsadbw", _mm_mpsadbw_epu8(x, y, 2));
    show("phminposuw", _mm_minpos_epu16(x));
    show("pmovsxbw", _mm_cvtepi8_epi16(x));
    show("pinsrq", _mm_insert_epi64(x, 0x1122334455667788, 1));
    printf("pextrb %d ptest %d%d%d\n", _mm_extract_epi8(x, 3), _mm_testz_si128(x, y), _mm_testc_si128(x, y), _mm_testnzc_si128(x, y));
    __m128i text = _mm_loadu_si128((const __m128i *)"the quick brown fox"), set = _mm_loadu_si128((const __m128i *)"aeiou\0\0\0\0\0\0\0\0\0\0");
    printf("pcmpistri %d %d\n", _mm_cmpistri(set, text, _SIDD_CMP_EQUAL_ANY), _mm_cmpistrc(set, text, _SIDD_CMP_EQUAL_ANY));
    show("pcmpestrm", _mm_cmpestrm(set, 5, text, 16, _SIDD_CMP_EQUAL_ANY | _SIDD_UNIT_MASK));
    printf("crc32 %08x %08llx\n", _mm_crc32_u8(0, 'a'), (unsigned long long)_mm_crc32_u64(1, 0x123456789abcdef0));
    printf("popcnt %d %lld\n", _mm_popcnt_u32(0xf0f0), (long long)_mm_popcnt_u64(~0ull));
    int target[8] __attribute__((aligned(16))) = {0};
    _mm_stream_si128((__m128i *)target, x);
    _mm_stream_si32(target + 4, 99);
    _mm_maskmoveu_si128(y, x, (char *)target + 4);
    _mm_sfence();
    show("streamed", _mm_load_si128((__m128i *)target));
    printf("movnti %d\n", target[4]);
    show("lddqu", _mm_lddqu_si128((__m128i *)((char *)target + 1)));
    __m64 m = _mm_set_pi16(1, -2, 3, -4);
    m = _mm_add_pi16(m, _mm_set1_pi16(10));
    printf("mmx %llx\n", (unsigned long long)_mm_cvtm64_si64(m));
    _mm_empty();
    return 0;
}
