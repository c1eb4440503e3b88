// AVX, AVX2, FMA, F16C and AVX-512, each where the processor has it.
//@ cc: -O1 -ffp-contract=off
#include "check.h"
#include <immintrin.h>

static void show(const char *name, const void *bytes, int n) {
    printf("%-12s", name);
    for (int i = 0; i < n; i++)
        printf("%02x", ((const unsigned char *)bytes)[i]);
    putchar('\n');
}
#define SHOW256(name, value) do { __typeof__(value) v_ = (value); show(name, &v_, 32); } while (0)

static volatile double input[8] = {1.25, -3.5, 1e10, 0.1, 7, -0.7, 2e-5, 1e300};

__attribute__((target("avx"))) static void avx(void) {
    __m256d a = _mm256_set_pd(input[0], input[1], input[2], input[3]), b = _mm256_set_pd(input[4], input[5], input[6], input[7]);
    SHOW256("vaddpd", _mm256_add_pd(a, b));
    SHOW256("vdivpd", _mm256_div_pd(a, b));
    SHOW256("vcmppd", _mm256_cmp_pd(a, b, _CMP_NLE_UQ));
    SHOW256("vperm2f128", _mm256_permute2f128_pd(a, b, 0x31));
    SHOW256("vblendvpd", _mm256_blendv_pd(a, b, a));
    SHOW256("vhaddpd", _mm256_hadd_pd(a, b));
    SHOW256("vroundpd", _mm256_round_pd(a, 0));
    SHOW256("vbroadcast", _mm256_broadcast_sd((const double *)&input[1]));
    double masked[4] = {0};
    _mm256_maskstore_pd(masked, _mm256_castpd_si256(a), b);
    show("vmaskmov", masked, 32);
    SHOW256("vmaskload", _mm256_maskload_pd((const double *)input, _mm256_castpd_si256(b)));
    printf("vmovmskpd %d vtestpd %d\n", _mm256_movemask_pd(a), _mm256_testc_pd(a, b));
    _mm256_zeroupper();
}

__attribute__((target("avx2"))) static void avx2(void) {
    __m256i a = _mm256_set_epi32(1, -2, 3, -4, 50000, -60000, 7, 0x7fffffff), b = _mm256_set1_epi32(0x01020304);
    SHOW256("vpaddd", _mm256_add_epi32(a, b));
    SHOW256("vpmulld", _mm256_mullo_epi32(a, b));
    SHOW256("vpermd", _mm256_permutevar8x32_epi32(a, _mm256_set_epi32(0, 2, 4, 6, 1, 3, 5, 7)));
    SHOW256("vpsllvd", _mm256_sllv_epi32(a, _mm256_set_epi32(0, 1, 2, 3, 31, 32, 33, 8)));
    SHOW256("vpshufb", _mm256_shuffle_epi8(a, b));
    SHOW256("vpermq", _mm256_permute4x64_epi64(a, 0x1b));
    SHOW256("vpackssdw", _mm256_packs_epi32(a, b));
    static const int table[16] = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150};
    __m256i index = _mm256_set_epi32(15, 0, 3, 12, 7, 7, 1, 9);
    SHOW256("vpgatherdd", _mm256_i32gather_epi32(table, index, 4));
    SHOW256("gather mask", _mm256_mask_i32gather_epi32(b, table, index, a, 4));
    __m256d doubles = _mm256_i32gather_pd((const double *)input, _mm_set_epi32(7, 0, 3, 2), 8);
    SHOW256("vgatherdpd", doubles);
    printf("vpmovmskb %08x\n", _mm256_movemask_epi8(a));
    _mm256_zeroupper();
}

__attribute__((target("fma,avx2"))) static void fused(void) {
    __m256d a = _mm256_set1_pd(1.0 + input[6]), b = _mm256_set_pd(input[0], input[1], input[2], input[3]);
    SHOW256("vfmadd", _mm256_fmadd_pd(a, b, a));
    SHOW256("vfnmsub", _mm256_fnmsub_pd(a, b, a));
    SHOW256("vfmaddsub", _mm256_fmaddsub_pd(a, b, a));
}

__attribute__((target("f16c,avx"))) static void f16c(void) {
    __m128i half = _mm256_cvtps_ph(_mm256_set_ps(1, 2.5f, -3, 65504, 1e-8f, 0.1f, 1e9f, -0.f), 0);
    show("vcvtps2ph", &half, 16);
    SHOW256("vcvtph2ps", _mm256_cvtph_ps(half));
}

__attribute__((target("avx512f,avx512vl,avx512bw"))) static void avx512(void) {
    __m512i a = _mm512_set_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), b = _mm512_set1_epi32(9);
    __mmask16 mask = _mm512_cmplt_epi32_mask(a, b);
    printf("mask %04x\n", mask);
    __m512i c = _mm512_mask_add_epi32(b, mask, a, a);
    show("vpaddd zmm", &c, 64);
    c = _mm512_permutexvar_epi32(a, c);
    show("vpermd zmm", &c, 64);
    c = _mm512_maskz_compress_epi32(mask, a);
    show("vpcompressd", &c, 64);
    __m512d d = _mm512_add_round_pd(_mm512_set1_pd(input[3]), _mm512_set1_pd(input[0]), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    show("vaddpd rz", &d, 64);
}

int main(void) {
    __builtin_cpu_init();
#define TRY(feature, function) if (__builtin_cpu_supports(feature)) function(); else puts(feature " skipped")
    TRY("avx", avx);
    TRY("avx2", avx2);
    TRY("fma", fused);
    TRY("f16c", f16c);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) avx512(); else puts("avx512 skipped");
    return 0;
}
