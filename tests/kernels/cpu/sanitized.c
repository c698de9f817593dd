/* Drives the kernels in C on random shapes, in memory of exactly their size, against their definition in double
   precision: `sanitized FIRST COUNT`. Built with native.c and with sanitizers, which end it at a wrong read or write. It
   prints the number of each case before it begins, so that the last one is the guilty one. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int attend_next(const float *q, long q_row, const float *k, long k_row, const float *v, long v_row, float *keys,
                float *values, long row, long slot, long slots, int64_t *rows, const int64_t *count,
                const float *slopes, const float *rates, float *y, long batch, long key_heads, long groups, long width,
                int threads);
int attend_source(const float *q, long q_row, const float *keys, const float *values, long row, long head, long slot,
                  long slots, const int64_t *lengths, float *y, long batch, long heads, long beams, long width,
                  int threads);

static uint64_t state;

static uint64_t draw(void)                                       /* splitmix64 */
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static long between(long low, long high) { return low + (long)(draw() % (uint64_t)(high - low + 1)); }
static float number(void) { return (float)((double)(draw() >> 11) / 4503599627370496.0 - 1.0); }

static float *numbers(long size)
{
    float *made = malloc(size * sizeof(float));
    for (long i = 0; i < size; i++)
        made[i] = number();
    return made;
}

static void die(const char *what)
{
    fprintf(stderr, "wrong: %s\n", what);
    exit(3);
}

static void agree(const float *found, const double *wanted, long size, const char *what)
{
    for (long i = 0; i < size; i++)
        if (!(fabs(found[i] - wanted[i]) <= 2e-5 + 2e-4 * fabs(wanted[i])))
            die(what);
}

/* sum_t softmax_t(scores) value_t, the definition. */
static void mean(const double *scores, const float **values, long n, long width, double *y)
{
    double largest = -INFINITY, sum = 0;
    for (long t = 0; t < n; t++)
        largest = scores[t] > largest ? scores[t] : largest;
    memset(y, 0, width * sizeof *y);
    for (long t = 0; t < n; t++)
        sum += exp(scores[t] - largest);
    for (long t = 0; t < n; t++)
        for (long c = 0; c < width; c++)
            y[c] += exp(scores[t] - largest) / sum * values[t][c];
}

static void turn(const float *x, float *y, const float *rates, double at, long width)
{
    memcpy(y, x, width * sizeof *x);
    for (long c = 0; rates && c < width / 2; c++) {
        double angle = at * rates[c];
        y[2 * c] = (float)(x[2 * c] * cos(angle) - x[2 * c + 1] * sin(angle));
        y[2 * c + 1] = (float)(x[2 * c] * sin(angle) + x[2 * c + 1] * cos(angle));
    }
}

static void poison(float *x, long size)                          /* no numbers, or such that products are none */
{
    const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e38f, 1e-45f};
    for (long i = 0; i < 3; i++)
        x[between(0, size - 1)] = odd[between(0, 5)];
}

static long a_width(void)
{
    const long usual[] = {1, 2, 7, 8, 16, 24, 63, 64, 128, 255, 256};
    return usual[between(0, 10)];
}

static void next(void)
{
    long batch = between(1, 5), key_heads = between(1, 3), groups = between(1, 3), width = a_width(), pad = between(0, 3);
    long slots = between(0, 14) ? between(1, 40) : between(250, 600), heads = key_heads * groups;
    long slot = key_heads * width, row = slots * slot, q_row = heads * width + pad, k_row = slot + pad;
    /* The last row of a batch ends without the others' padding: nothing may be read there. */
    float *q = numbers((batch - 1) * q_row + heads * width), *k = numbers((batch - 1) * k_row + slot);
    float *v = numbers((batch - 1) * k_row + slot), *keys = numbers(batch * row), *values = numbers(batch * row);
    float *y = numbers(batch * heads * width), *slopes = between(0, 1) ? numbers(heads) : NULL;
    float *rates = width % 2 == 0 && between(0, 1) ? numbers(width / 2) : NULL;
    int64_t *count = malloc(batch * sizeof *count), *rows = between(0, 1) ? malloc(batch * slots * sizeof *rows) : NULL;
    long beyond = between(0, 9) ? -1 : between(0, batch - 1), odd = !between(0, 9);
    for (long b = 0; b < batch; b++)
        count[b] = between(0, 3) ? between(0, slots - 1) : slots - 1;
    for (long b = 1; rows && b < batch; b++)                     /* beams that share slots have read equally much */
        count[b] = count[0];
    if (beyond >= 0)
        count[beyond] = between(0, 1) ? slots + between(0, 3) : between(0, 1) ? -1 : INT64_MAX;
    for (long i = 0; rows && i < batch * slots; i++)
        rows[i] = between(0, batch - 1);
    if (odd && between(0, 1))
        poison(q, heads * width);
    else if (odd)
        poison(k, slot);
    float *before = malloc(batch * row * sizeof(float));
    memcpy(before, keys, batch * row * sizeof(float));
    int refused = attend_next(q, q_row, k, k_row, v, k_row, keys, values, row, slot, slots, rows, count, slopes, rates, y,
                              batch, key_heads, groups, width, between(0, 7) ? 1 : 2);
    if (refused != (beyond >= 0))
        die("a row beyond its slots is refused, and no other");
    if (refused && memcmp(before, keys, batch * row * sizeof(float)))
        die("what is refused writes nothing");
    double *scores = malloc(slots * sizeof *scores), *wanted = malloc(width * sizeof *wanted);
    const float **read = malloc(slots * sizeof *read);
    float *turned = malloc(width * sizeof *turned);
    for (long b = 0; !refused && !odd && b < batch; b++)
        for (long h = 0; h < heads; h++) {
            long own = h / groups, n = count[b];
            turn(q + b * q_row + h * width, turned, rates, (double)n, width);
            for (long t = 0; t <= n; t++) {
                long from = (rows && t < n ? rows[b * slots + t] : b) * row + t * slot + own * width;
                double sum = 0;
                for (long c = 0; c < width; c++)
                    sum += (double)turned[c] * keys[from + c];
                scores[t] = sum / sqrt((double)width) - (slopes ? slopes[h] : 0) * (double)(n - t);
                read[t] = values + from;
            }
            mean(scores, read, n + 1, width, wanted);
            agree(y + (b * heads + h) * width, wanted, width, "attend_next");
            turn(k + b * k_row + own * width, turned, rates, (double)n, width);
            for (long c = 0; c < width; c++)
                if (!(fabsf(turned[c] - keys[b * row + n * slot + own * width + c]) < 1e-4f))
                    die("the new key is in its slot");
        }
    free(q), free(k), free(v), free(keys), free(values), free(y), free(slopes), free(rates), free(count), free(rows);
    free(before), free(scores), free(wanted), free(read), free(turned);
}

static void source(void)
{
    long sources = between(1, 4), beams = between(1, 3), heads = between(1, 4), width = a_width(), batch = sources * beams;
    long slots = between(0, 14) ? between(1, 40) : between(250, 600), pad = between(0, 2), odd = !between(0, 9);
    long head = between(0, 1) ? slots * width : width, slot = head == width ? heads * width : width;
    long row = heads * slots * width, q_row = heads * width + pad, beyond = between(0, 9) ? -1 : between(0, sources - 1);
    float *q = numbers((batch - 1) * q_row + heads * width), *keys = numbers(sources * row), *values = numbers(sources * row);
    float *y = numbers(batch * heads * width);
    int64_t *lengths = malloc(sources * sizeof *lengths);
    for (long s = 0; s < sources; s++)
        lengths[s] = between(0, 5) ? between(0, slots) : slots;
    if (beyond >= 0)
        lengths[beyond] = slots + between(1, 3);
    if (odd)
        poison(q, heads * width);
    int refused = attend_source(q, q_row, keys, values, row, head, slot, slots, lengths, y, batch, heads, beams, width,
                                between(0, 7) ? 1 : 2);
    if (refused != (beyond >= 0))
        die("a length beyond the source is refused, and no other");
    double *scores = malloc(slots * sizeof *scores), *wanted = malloc(width * sizeof *wanted);
    const float **read = malloc(slots * sizeof *read);
    for (long b = 0; !refused && !odd && b < batch; b++)
        for (long h = 0; h < heads; h++) {
            long n = lengths[b / beams];
            for (long t = 0; t < n; t++) {
                long from = b / beams * row + h * head + t * slot;
                double sum = 0;
                for (long c = 0; c < width; c++)
                    sum += (double)q[b * q_row + h * width + c] * keys[from + c];
                scores[t] = sum / sqrt((double)width);
                read[t] = values + from;
            }
            mean(scores, read, n, width, wanted);
            agree(y + (b * heads + h) * width, wanted, width, "attend_source");
        }
    free(q), free(keys), free(values), free(y), free(lengths), free(scores), free(wanted), free(read);
}

int main(int arguments, char **given)
{
    long first = arguments > 1 ? atol(given[1]) : 0, count = arguments > 2 ? atol(given[2]) : 1;
    for (long at = first; at < first + count; at++) {
        printf("%ld\n", at);
        fflush(stdout);
        state = (uint64_t)at * 0x2545f4914f6cdd1du;
        at % 2 ? source() : next();
    }
    printf("done\n");
    return 0;
}
