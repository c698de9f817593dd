/* Steps of generation on a CPU. What torch does in many small moves, each of them over all rows, is done here row by
   row while it is in the cache: attention of one new token to what was read before it, or to a source. `native.py`
   builds this file where there is a C compiler; `attend_next.py` and `attend_source.py` hold the definitions in torch.

   All numbers are float32. B batch, H heads, K head width, C slots; strides are in numbers, not in bytes. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 256              /* slots whose scores are held at once */
#define WIDEST 256             /* of a head */
#define WORTH 1024             /* numbers of all queries that are worth a second thread */

/* e^x for x <= 0, to a few units in the last place: a power of two and a polynomial, which the compiler does for many
   x at once. */
static inline float exp_below(float x)
{
    x = x < -87.0f ? -87.0f : x;
    float n = rintf(x * 1.44269504f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t bits = ((int32_t)(n >= -126.0f ? n : -126.0f) + 127) << 23;     /* nan, which p keeps, is no whole number */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

static inline float dot(const float *a, const float *b, long width)
{
    float sum = 0.0f;
    #pragma omp simd reduction(+ : sum)
    for (long c = 0; c < width; c++)
        sum += a[c] * b[c];
    return sum;
}

/* y = sum_t softmax_t(q . k_t scale - slope (n - 1 - t)) v_t over n slots. Slot t lies in row rows[t] of the room, or,
   without rows, in the one that is given. Blocks go by with the largest score and the sum kept up on the way. */
static void read_slots(const float *q, const float *keys, const float *values, const int64_t *rows, long n, long row,
                       long slot, long width, float scale, float slope, float *y)
{
    float weights[BLOCK], largest = -INFINITY, sum = 0.0f;
    for (long c = 0; c < width; c++)
        y[c] = 0.0f;
    for (long first = 0; first < n; first += BLOCK) {
        long size = n - first < BLOCK ? n - first : BLOCK;
        float above = largest;
        for (long i = 0; i < size; i++) {
            long t = first + i;
            const float *key = keys + (rows ? rows[t] * row : 0) + t * slot;
            weights[i] = dot(q, key, width) * scale - slope * (float)(n - 1 - t);
            above = weights[i] > above ? weights[i] : above;
        }
        float fall = exp_below(largest - above), own = 0.0f;       /* of the first block: e^-87 times nothing */
        #pragma omp simd reduction(+ : own)
        for (long i = 0; i < size; i++) {
            weights[i] = exp_below(weights[i] - above);
            own += weights[i];
        }
        sum = sum * fall + own;
        largest = above;
        for (long c = 0; first && c < width; c++)
            y[c] *= fall;
        for (long i = 0; i < size; i++) {
            long t = first + i;
            const float *value = values + (rows ? rows[t] * row : 0) + t * slot;
            float weight = weights[i];
            #pragma omp simd
            for (long c = 0; c < width; c++)
                y[c] += weight * value[c];
        }
    }
    float scale_down = sum > 0.0f ? 1.0f / sum : 0.0f;             /* who may read nothing reads zeros */
    for (long c = 0; c < width; c++)
        y[c] *= scale_down;
}

static void turn(const float *x, float *y, const float *rates, float at, long width)
{
    for (long c = 0; c < width / 2; c++) {
        float angle = at * rates[c], cosine = cosf(angle), sine = sinf(angle);
        float a = x[2 * c], b = x[2 * c + 1];
        y[2 * c] = a * cosine - b * sine;
        y[2 * c + 1] = a * sine + b * cosine;
    }
}

/* One new token of every row: its key and value go into slot count[b] of row b of the room, and its queries read all
   slots up to that one. `rows` (B, C), if given, says in which row of the room each slot of a row lies; the new one is
   noted there. Gives 1, and does nothing, where a row has no slot left. */
int attend_next(const float *q, long q_row, const float *k, long k_row, const float *v, long v_row, float *keys,
                float *values, long row, long slot, long slots, int64_t *rows, const int64_t *count,
                const float *slopes, const float *rates, float *y, long batch, long key_heads, long groups, long width,
                int threads)
{
    float scale = 1.0f / sqrtf((float)width);
    for (long b = 0; b < batch; b++)
        if (count[b] < 0 || count[b] >= slots)
            return 1;
    for (long b = 0; rows && b < batch; b++)
        rows[b * slots + count[b]] = b;
    #pragma omp parallel for schedule(static) num_threads(threads) if (batch * key_heads * width >= WORTH)
    for (long item = 0; item < batch * key_heads; item++) {
        long b = item / key_heads, own = item % key_heads, n = count[b];
        float turned[WIDEST], *key = keys + b * row + n * slot + own * width;
        const float *new_key = k + b * k_row + own * width;
        if (rates)
            turn(new_key, key, rates, (float)n, width);
        else
            memcpy(key, new_key, width * sizeof(float));
        memcpy(values + b * row + n * slot + own * width, v + b * v_row + own * width, width * sizeof(float));
        for (long head = own * groups; head < (own + 1) * groups; head++) {
            const float *query = q + b * q_row + head * width;
            if (rates) {
                turn(query, turned, rates, (float)n, width);
                query = turned;
            }
            long from = rows ? 0 : b * row;
            read_slots(query, keys + from + own * width, values + from + own * width, rows ? rows + b * slots : 0,
                       n + 1, row, slot, width, scale, slopes ? slopes[head] : 0.0f,
                       y + (b * key_heads * groups + head) * width);
        }
    }
    return 0;
}

/* One query of every row against its source, which `beams` neighbouring rows share: its first lengths[s] positions.
   Gives 1, and does nothing, where there are fewer. */
int attend_source(const float *q, long q_row, const float *keys, const float *values, long row, long head, long slot,
                  long slots, const int64_t *lengths, float *y, long batch, long heads, long beams, long width,
                  int threads)
{
    float scale = 1.0f / sqrtf((float)width);
    for (long s = 0; s < batch / beams; s++)
        if (lengths[s] > slots)
            return 1;
    #pragma omp parallel for schedule(static) num_threads(threads) if (batch * heads * width >= WORTH)
    for (long item = 0; item < batch * heads; item++) {
        long b = item / heads, h = item % heads, s = b / beams, from = s * row + h * head;
        read_slots(q + b * q_row + h * width, keys + from, values + from, 0, lengths[s], row, slot, width, scale, 0.0f,
                   y + item * width);
    }
    return 0;
}
