// SPDX-License-Identifier: Apache-2.0
#include "conformance/unsharded/muon.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>

static float interpolate(float m, float g, float weight, bool fused)
{
    float step = fabsf(weight) < 0.5f ? weight : weight - 1.0f, base = fabsf(weight) < 0.5f ? m : g;
    return fused ? fmaf(step, g - m, base) : step * (g - m) + base;
}

float muon_momentum_of(enum muon_momentum form, double momentum, float m, float g)
{
    float keep = (float)momentum, take = (float)(1 - momentum);
    switch (form) {
    case MOMENTUM_INTERPOLATED_UNFUSED:
        return interpolate(m, g, take, false);
    case MOMENTUM_WEIGHED:
        return keep * m + take * g;
    case MOMENTUM_WEIGHED_FUSED:
        return fmaf(take, g, keep * m);
    case MOMENTUM_SUM:
        return keep * m + g;
    case MOMENTUM_SUM_FUSED:
        return fmaf(keep, m, g);
    default:
        return interpolate(m, g, take, true);
    }
}

const char *muon_momentum_text(enum muon_momentum form)
{
    static const char *const texts[MOMENTUM_COUNT] = {"momentum interpolated", "momentum interpolated without FMA",
                                                      "momentum weighed",      "momentum weighed with FMA",
                                                      "momentum summed",       "momentum summed with FMA"};
    return texts[form];
}

bool muon_momentum_is_sum(enum muon_momentum form)
{
    return form == MOMENTUM_SUM || form == MOMENTUM_SUM_FUSED;
}

int muon_momentum_count(const struct check_case *c)
{
    for (int i = 0; i < c->group_count; i++)
        if (c->groups[i].muon)
            return MOMENTUM_COUNT;
    return 1;
}

double muon_rate(const struct case_group *group, size_t rows, size_t columns)
{
    double r = (double)rows, c = (double)columns;
    return group->matches_adamw ? 0.2 * sqrt(fmax(r, c)) : sqrt(fmax(1, r / c));
}

// x[side * length] times its transpose.
static void gram(const double *x, size_t side, size_t length, double *out)
{
    for (size_t i = 0; i < side; i++)
        for (size_t j = 0; j < side; j++) {
            double sum = 0;
            for (size_t k = 0; k < length; k++)
                sum += x[i * length + k] * x[j * length + k];
            out[i * side + j] = sum;
        }
}

// x = (3.4445 - 4.7750 y + 2.0315 y y) x with y = x times its transpose, which is symmetric as its polynomial is. Of a
// column of x at a time; `column` has room for two.
static void step(double *x, size_t side, size_t length, double *y, double *column)
{
    double *first = column, *second = column + side;
    gram(x, side, length, y);
    for (size_t k = 0; k < length; k++) {
        for (size_t i = 0; i < side; i++) {
            first[i] = 0;
            for (size_t j = 0; j < side; j++)
                first[i] += y[i * side + j] * x[j * length + k];
        }
        for (size_t i = 0; i < side; i++) {
            second[i] = 0;
            for (size_t j = 0; j < side; j++)
                second[i] += y[i * side + j] * first[j];
        }
        for (size_t i = 0; i < side; i++)
            x[i * length + k] = 3.4445 * x[i * length + k] - 4.7750 * first[i] + 2.0315 * second[i];
    }
}

// The matrix, with the smaller number of rows: transposed if it has more rows than columns. back: the way there.
static void turn(const double *from, size_t rows, size_t columns, bool back, double *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            size_t own = i * columns + j, turned = rows > columns ? j * rows + i : own;
            to[back ? own : turned] = from[back ? turned : own];
        }
}

int muon_orthogonalise(const double *d, size_t rows, size_t columns, int steps, double *out)
{
    size_t side = rows < columns ? rows : columns, count = rows * columns, length = side ? count / side : 0;
    double *x = calloc(count + side * side + 2 * side + 1, sizeof *x), *y = x + count, norm = 0;
    if (!x)
        return err_set(ERR_MEMORY, "no memory for an update of %zu x %zu", rows, columns);
    turn(d, rows, columns, false, x);
    for (size_t i = 0; i < count; i++)
        norm += x[i] * x[i];
    norm = fmax(sqrt(norm), 1e-7);
    for (size_t i = 0; i < count; i++)
        x[i] /= norm;
    for (int k = 0; k < steps; k++)
        step(x, side, length, y, y + side * side);
    turn(x, rows, columns, true, out);
    free(x);
    return ERR_NONE;
}

// One rotation of Jacobi's method, which takes a_pq of a symmetric matrix to 0.
static void rotate(double *a, size_t n, size_t p, size_t q)
{
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double tangent = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    double cosine = 1 / sqrt(tangent * tangent + 1), sine = tangent * cosine;
    for (size_t k = 0; k < n; k++) {
        double kp = a[k * n + p], kq = a[k * n + q];
        a[k * n + p] = cosine * kp - sine * kq;
        a[k * n + q] = sine * kp + cosine * kq;
    }
    for (size_t k = 0; k < n; k++) {
        double pk = a[p * n + k], qk = a[q * n + k];
        a[p * n + k] = cosine * pk - sine * qk;
        a[q * n + k] = sine * pk + cosine * qk;
    }
}

int muon_singular_values(const double *a, size_t rows, size_t columns, struct muon_range *out)
{
    enum { SWEEPS = 30 };
    size_t side = rows < columns ? rows : columns, count = rows * columns;
    double *x = calloc(count + side * side + 1, sizeof *x), *square = x + count;
    *out = (struct muon_range){INFINITY, 0};
    if (!x)
        return err_set(ERR_MEMORY, "no memory for the singular values of %zu x %zu", rows, columns);
    turn(a, rows, columns, false, x);
    gram(x, side, side ? count / side : 0, square);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (size_t p = 0; p < side; p++)
            for (size_t q = p + 1; q < side; q++)
                if (fabs(square[p * side + q]) > 1e-30)
                    rotate(square, side, p, q);
    for (size_t i = 0; i < side; i++) {
        double value = sqrt(fmax(0, square[i * side + i]));
        out->least = fmin(out->least, value);
        out->most = fmax(out->most, value);
    }
    free(x);
    return ERR_NONE;
}
