/* The slowest of many devices. The largest of n draws with density f and distribution F has the density n f F^(n - 1)
 * (David and Nagaraja, Order Statistics, 2003, section 2.1); its mean is taken by Simpson's rule. */
#include "scale/scale.h"

#include <math.h>

enum { INTERVALS = 4000 };
static const double reach = 12; /* standard deviations on each side: beyond lies less than a part in 1e30 */

/* x = exp(mu + sigma z) with z normal: its mean is exp(mu + sigma^2 / 2), and 1 here. */
static double integrand(double z, double sigma, unsigned n) {
    static const double log_root_two_pi = 0.91893853320467274178;
    const double below = log1p(-0.5 * erfc(z * M_SQRT1_2));
    return exp(sigma * z - 0.5 * sigma * sigma - 0.5 * z * z - log_root_two_pi + log((double)n) + (n - 1) * below);
}

double clq_scale_largest(unsigned n, double spread) {
    if (n <= 1 || spread <= 0) return 1;
    const double sigma = sqrt(log1p(spread * spread)), from = -reach, step = (2 * reach + sigma) / INTERVALS;
    double sum = integrand(from, sigma, n) + integrand(from + INTERVALS * step, sigma, n);
    for (unsigned i = 1; i < INTERVALS; i++) sum += (i % 2 ? 4 : 2) * integrand(from + i * step, sigma, n);
    return sum * step / 3;
}
