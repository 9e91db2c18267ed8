package mantissa.number;

import java.math.BigInteger;

/**
 * The powers of ten as 128-bit significands, from 10<sup>-342</sup> to 10<sup>324</sup>: exact where they fit (up to
 * 10<sup>55</sup>), cut off above, rounded up for negative exponents. They are computed once, in some milliseconds.
 */
final class PowersOfTen {
    static final int FIRST = -342;
    static final int LAST = 324;
    /** The last power that 128 bits hold exactly. */
    static final int EXACT_LAST = 55;

    /** The upper and the lower half of the significand of 10<sup>FIRST + index</sup>; the top bit is set. */
    static final long[] HIGH = new long[LAST - FIRST + 1];
    static final long[] LOW = new long[LAST - FIRST + 1];

    /** The powers that a double holds exactly. */
    static final double[] EXACT = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
        1e19, 1e20, 1e21, 1e22
    };

    private PowersOfTen() {}

    static {
        BigInteger power = BigInteger.ONE;
        for (int exponent = 0; exponent <= Math.max(LAST, -FIRST); exponent++) {
            int bits = power.bitLength();
            if (exponent <= LAST) {
                set(exponent, bits <= 128 ? power.shiftLeft(128 - bits) : power.shiftRight(bits - 128));
            }
            if (exponent > 0 && exponent <= -FIRST) {
                // No power of ten but one is a power of two, so the quotient has 128 bits and is never exact.
                set(-exponent, BigInteger.ONE.shiftLeft(bits + 127).divide(power).add(BigInteger.ONE));
            }
            power = power.multiply(BigInteger.TEN);
        }
    }

    private static void set(int exponent, BigInteger significand) {
        HIGH[exponent - FIRST] = significand.shiftRight(64).longValue();
        LOW[exponent - FIRST] = significand.longValue();
    }

    /** The upper 64 bits of the product of two unsigned numbers. */
    static long multiplyHigh(long a, long b) {
        return Math.multiplyHigh(a, b) + ((a >> 63) & b) + ((b >> 63) & a);
    }
}
