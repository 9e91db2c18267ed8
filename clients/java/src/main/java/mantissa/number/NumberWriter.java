package mantissa.number;

import java.nio.charset.StandardCharsets;

/**
 * Prints numbers into bytes. A double is printed as the shortest digits that read back as the same value, the closest
 * among those: in place from 0.00001 up to 1e17 ({@code 12.5}, {@code 3}, {@code 0.00012}), with an exponent beyond
 * ({@code 1.5e-7}, {@code 1e+20}); {@code inf}, {@code -inf}, {@code nan}, {@code -0}. Nothing is allocated.
 *
 * <p>Source: Raffaello Giulietti, "The Schubfach way to render doubles" (2020). The text is that of
 * {@code mn_write_f64} in {@code mantissa_number.h}, and passes the same vectors.
 */
public final class NumberWriter {
    /** The bytes that a double may take. */
    public static final int DOUBLE_MAX = 26;
    /** The bytes that a long may take. */
    public static final int LONG_MAX = 20;

    private static final byte[] LONG_MIN = "-9223372036854775808".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] PAIRS = new byte[200];

    static {
        for (int pair = 0; pair < 100; pair++) {
            PAIRS[2 * pair] = (byte) ('0' + pair / 10);
            PAIRS[2 * pair + 1] = (byte) ('0' + pair % 10);
        }
    }

    private NumberWriter() {}

    /** How many digits a number above or equal to zero has. */
    public static int digitCount(long value) {
        int count = 1;
        for (long limit = 10; count < 19 && value >= limit; limit *= 10) {
            count++;
        }
        return count;
    }

    /** Prints a long at {@code at} and returns the end of it, at most {@link #LONG_MAX} bytes later. */
    public static int writeLong(byte[] out, int at, long value) {
        if (value < 0) {
            if (value == Long.MIN_VALUE) {
                System.arraycopy(LONG_MIN, 0, out, at, LONG_MIN.length);
                return at + LONG_MIN.length;
            }
            out[at++] = '-';
            value = -value;
        }
        int end = at + digitCount(value);
        int place = end;
        while (value >= 100) {
            long hundreds = value / 100;
            int pair = (int) (value - hundreds * 100) * 2;
            out[--place] = PAIRS[pair + 1];
            out[--place] = PAIRS[pair];
            value = hundreds;
        }
        if (value >= 10) {
            out[--place] = PAIRS[(int) value * 2 + 1];
            out[--place] = PAIRS[(int) value * 2];
        } else {
            out[--place] = (byte) ('0' + value);
        }
        return end;
    }

    /** Prints a double at {@code at} and returns the end of it, at most {@link #DOUBLE_MAX} bytes later. */
    public static int writeDouble(byte[] out, int at, double value) {
        long signed = Double.doubleToRawLongBits(value);
        long bits = signed & Long.MAX_VALUE;
        boolean negative = signed < 0;
        if (bits == 0 || bits >= 0x7ff0000000000000L) {
            return writeSpecial(out, at, bits, negative);
        }
        if (negative) {
            out[at++] = '-';
            value = -value;
        }
        if (value < 0x1p53 && value == (double) (long) value) {
            return writeLong(out, at, (long) value);
        }
        return writeDigits(out, at, bits);
    }

    private static int writeSpecial(byte[] out, int at, long bits, boolean negative) {
        boolean isNan = bits > 0x7ff0000000000000L;
        if (negative && !isNan) {
            out[at++] = '-';
        }
        String text = bits == 0 ? "0" : isNan ? "nan" : "inf";
        for (int index = 0; index < text.length(); index++) {
            out[at++] = (byte) text.charAt(index);
        }
        return at;
    }

    /** A finite double above zero: its digits by Schubfach, then the text. */
    private static int writeDigits(byte[] out, int at, long bits) {
        final long fraction = bits & ((1L << 52) - 1);
        final int field = (int) (bits >>> 52);
        final boolean irregular = fraction == 0 && field > 1;
        final int two = Math.max(field, 1) - 1075;
        final long significand = field == 0 ? fraction : fraction | 1L << 52;
        // 1262611 / 2^22 is log10(2), 524031 / 2^22 is log10(4/3), 1741647 / 2^19 is log2(10).
        final int ten = (two * 1262611 - (irregular ? 524031 : 0)) >> 22;
        final int shift = two + ((-ten * 1741647) >> 19) + 1;
        final int index = -ten - PowersOfTen.FIRST;
        // The power rounded up; beyond the exact ones the table holds it cut off.
        final long powerLow = PowersOfTen.LOW[index] + (-ten > PowersOfTen.EXACT_LAST ? 1 : 0);
        final long powerHigh =
                PowersOfTen.HIGH[index] + (powerLow == 0 && -ten > PowersOfTen.EXACT_LAST ? 1 : 0);
        // The value and the ends of its rounding interval, in quarters of the unit of the last digit.
        final long value = scale(4 * significand, shift, powerHigh, powerLow);
        final long odd = significand & 1;
        final long lower = scale(4 * significand - (irregular ? 1 : 2), shift, powerHigh, powerLow) + odd;
        final long upper = scale(4 * significand + 2, shift, powerHigh, powerLow) - odd;
        return layOut(out, at, choose(value, lower, upper), ten);
    }

    /** The upper bits of quarters * 2^shift * power, rounded to odd. */
    private static long scale(long quarters, int shift, long powerHigh, long powerLow) {
        long factor = quarters << shift;
        long carried = PowersOfTen.multiplyHigh(factor, powerLow);
        long middle = factor * powerHigh;
        long high = PowersOfTen.multiplyHigh(factor, powerHigh);
        middle += carried;
        high += Long.compareUnsigned(middle, carried) < 0 ? 1 : 0;
        return high | (Long.compareUnsigned(middle, 1) > 0 ? 1 : 0);
    }

    /** The shortest decimal in the rounding interval and the closest of those: a multiple of ten where one fits. */
    private static long choose(long value, long lower, long upper) {
        long units = value >>> 2;
        long tens = units / 10;
        boolean tensBelow = lower <= 40 * tens;
        boolean tensAbove = 40 * tens + 40 <= upper;
        if (tensBelow != tensAbove) {
            return 10 * (tens + (tensAbove ? 1 : 0));
        }
        boolean below = lower <= 4 * units;
        boolean above = 4 * units + 4 <= upper;
        if (below != above) {
            return units + (above ? 1 : 0);
        }
        return units + ((value & 3) + (units & 1) > 2 ? 1 : 0);
    }

    /** The text of digits * 10^exponent. */
    private static int layOut(byte[] out, int at, long digits, int exponent) {
        while (digits % 10 == 0) {
            digits /= 10;
            exponent++;
        }
        int count = digitCount(digits);
        // The first digit counts 10^leading.
        int leading = exponent + count - 1;
        if (leading < -5 || leading >= 17) {
            int end = writeLong(out, at + 1, digits);
            out[at] = out[at + 1];
            out[at + 1] = '.';
            end = count == 1 ? at + 1 : end;
            out[end++] = 'e';
            out[end++] = (byte) (leading < 0 ? '-' : '+');
            return writeLong(out, end, Math.abs(leading));
        }
        if (leading < 0) {
            out[at++] = '0';
            out[at++] = '.';
            for (int zeros = -leading - 1; zeros > 0; zeros--) {
                out[at++] = '0';
            }
            return writeLong(out, at, digits);
        }
        int end = writeLong(out, at, digits);
        for (; exponent > 0; exponent--) {
            out[end++] = '0';
        }
        int whole = at + leading + 1;
        if (whole < end) {
            System.arraycopy(out, whole, out, whole + 1, end - whole);
            out[whole] = '.';
            end++;
        }
        return end;
    }
}
