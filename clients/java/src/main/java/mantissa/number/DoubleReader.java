package mantissa.number;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigInteger;
import java.nio.ByteOrder;

/**
 * Reads doubles from bytes: correctly rounded for every input, to nearest with ties to even, in any locale. No string is
 * made, and nothing is allocated unless more than 19 digits lie close to the middle between two doubles.
 *
 * <p>A text is digits with at most one point among them, after an optional sign and before an optional exponent; or
 * {@code inf}, {@code infinity}, {@code nan}, {@code nan(text)} in any case. Spaces and hexadecimal numbers are refused.
 *
 * <p>Sources: William Clinger's short way (1990); Daniel Lemire, "Number Parsing at a Gigabyte per Second" (2021), with
 * Noble Mushtak and Daniel Lemire, "Fast Number Parsing Without Fallback" (2023). It is the algorithm of
 * {@code mantissa_number.h} and passes the same vectors.
 */
public final class DoubleReader {
    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle SHORTS =
            MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
    private static final short LINE_END = '\r' | '\n' << 8;
    private static final long ZEROS = 0x3030303030303030L;
    private static final long SEVENS = 0x7f7f7f7f7f7f7f7fL;
    private static final long TOP_BITS = 0x8080808080808080L;

    private static final int MANTISSA_BITS = 52;
    private static final int EXPONENT_BIAS = 1023;
    private static final int EXPONENT_MASK = 0x7ff;
    private static final long INFINITY_BITS = (long) EXPONENT_MASK << MANTISSA_BITS;
    /** Below this power of ten everything is zero. */
    private static final int SMALLEST_TEN = -342;
    /** Above this power of ten everything is infinite. */
    private static final int LARGEST_TEN = 308;
    /** The most digits that fit in 64 bits whatever they are. */
    private static final int DIGITS_MAX = 19;
    /** Digits beyond these can only break a tie. */
    private static final int EXACT_DIGITS_MAX = 768;

    private DoubleReader() {}

    /**
     * The double that {@code text[from, to)} spells. Too large a number is an infinity, too small a one zero.
     *
     * @throws NumberFormatException if the range is anything but one number
     */
    public static double parse(byte[] text, int from, int to) {
        int at = from;
        boolean negative = false;
        if (at < to && (text[at] == '-' || text[at] == '+')) {
            negative = text[at++] == '-';
        }
        int start = at;
        long digits = 0;
        for (; to - at >= 8; at += 8) {
            long word = (long) LONGS.get(text, at) ^ ZEROS;
            if (!areDigits(word)) {
                break;
            }
            digits = digits * 100_000_000 + eightDigits(word);
        }
        while (at < to && isDigit(text[at])) {
            digits = digits * 10 + (text[at++] - '0');
        }
        int count = at - start;
        int fraction = 0;
        if (at < to && text[at] == '.') {
            int point = at++;
            for (; to - at >= 8; at += 8) {
                long word = (long) LONGS.get(text, at) ^ ZEROS;
                if (!areDigits(word)) {
                    break;
                }
                digits = digits * 100_000_000 + eightDigits(word);
            }
            while (at < to && isDigit(text[at])) {
                digits = digits * 10 + (text[at++] - '0');
            }
            fraction = at - point - 1;
            count += fraction;
        }
        if (at != to || count == 0 || count > DIGITS_MAX) {
            return parseAny(text, from, to);
        }
        return finish(digits, -fraction, negative);
    }

    /**
     * Reads a line that is a number of up to 19 digits without an exponent, and CR LF, into {@code values[index]}.
     *
     * @return where the next line begins, or -1 if the line is another or does not end before {@code limit}
     */
    public static int parseLine(byte[] text, int from, int limit, double[] values, int index) {
        int at = from;
        boolean negative = text[at] == '-';
        at += negative ? 1 : 0;
        int start = at;
        long digits = 0;
        while (at < limit && isDigit(text[at])) {
            digits = digits * 10 + (text[at++] - '0');
        }
        int count = at - start;
        int fraction = 0;
        if (at < limit && text[at] == '.') {
            int point = at++;
            for (; limit - at >= 8; at += 8) {
                long word = (long) LONGS.get(text, at) ^ ZEROS;
                if (!areDigits(word)) {
                    break;
                }
                digits = digits * 100_000_000 + eightDigits(word);
            }
            while (at < limit && isDigit(text[at])) {
                digits = digits * 10 + (text[at++] - '0');
            }
            fraction = at - point - 1;
            count += fraction;
        }
        if (limit - at < 2 || (short) SHORTS.get(text, at) != LINE_END || count == 0 || count > DIGITS_MAX) {
            return -1;
        }
        values[index] = finish(digits, -fraction, negative);
        return at + 2;
    }

    private static boolean isDigit(byte character) {
        return (byte) (character - '0') >= 0 && character <= '9';
    }

    /** Whether all eight bytes are below ten, {@code '0'} taken off each. */
    private static boolean areDigits(long word) {
        return ((((word & SEVENS) + 0x7676767676767676L) | word) & TOP_BITS) == 0;
    }

    /** The number that eight digits spell, the first in the lowest byte: pairs, then fours, then eight. */
    private static long eightDigits(long word) {
        word = word * 10 + (word >>> 8);
        return ((word & 0x000000ff000000ffL) * (100 + (1_000_000L << 32))
                + (word >>> 16 & 0x000000ff000000ffL) * (1 + (10_000L << 32))) >>> 32;
    }

    /** digits * 10^ten, where nothing was cut off. */
    private static double finish(long digits, long ten, boolean negative) {
        // Clinger: both parts are exact doubles, so that one operation rounds correctly.
        if (digits >>> 53 == 0 && ten >= -22 && ten <= 22) {
            double value = digits;
            value = ten < 0 ? value / PowersOfTen.EXACT[(int) -ten] : value * PowersOfTen.EXACT[(int) ten];
            return negative ? -value : value;
        }
        return withSign(round(digits, ten), negative);
    }

    private static double withSign(long bits, boolean negative) {
        return Double.longBitsToDouble(negative ? bits | Long.MIN_VALUE : bits);
    }

    /**
     * The bits of digits * 10^ten, without a sign: Lemire's algorithm. One product with the upper half of the power
     * settles all but one in some hundred inputs; with the lower half it settles all.
     */
    private static long round(long digits, long ten) {
        if (digits == 0 || ten < SMALLEST_TEN) {
            return 0;
        }
        if (ten > LARGEST_TEN) {
            return INFINITY_BITS;
        }
        final long doubtful = -1L >>> (MANTISSA_BITS + 3);
        int index = (int) ten - PowersOfTen.FIRST;
        int zeros = Long.numberOfLeadingZeros(digits);
        long normal = digits << zeros;
        long power = PowersOfTen.HIGH[index];
        long low = normal * power;
        long high = PowersOfTen.multiplyHigh(normal, power);
        if ((high & doubtful) == doubtful) {
            long more = PowersOfTen.multiplyHigh(normal, PowersOfTen.LOW[index]);
            low += more;
            high += Long.compareUnsigned(low, more) < 0 ? 1 : 0;
        }
        int upper = (int) (high >>> 63);
        int drop = upper + 64 - MANTISSA_BITS - 3;
        long mantissa = high >>> drop;
        // 217706 / 2^16 is log2(10).
        int exponent = (int) ((217706 * ten) >> 16) + 63 + upper - zeros + EXPONENT_BIAS;
        if (exponent <= 0) {
            if (exponent <= -63) {
                return 0;
            }
            mantissa >>>= 1 - exponent;
            return (mantissa + (mantissa & 1)) >>> 1;
        }
        // Only between these powers can 19 digits lie in the middle between two doubles.
        if (Long.compareUnsigned(low, 1) <= 0 && ten >= -4 && ten <= 23 && (mantissa & 3) == 1
                && mantissa << drop == high) {
            mantissa &= ~1L;
        }
        mantissa = (mantissa + (mantissa & 1)) >>> 1;
        // The hidden bit adds one to the exponent, and so does a carry out of the mantissa.
        mantissa += (long) (exponent - 1) << MANTISSA_BITS;
        return Long.compareUnsigned(mantissa, INFINITY_BITS) < 0 ? mantissa : INFINITY_BITS;
    }

    /** Any number, one character at a time: with an exponent, with many digits, or a word. */
    private static double parseAny(byte[] text, int from, int to) {
        int at = from;
        boolean negative = false;
        if (at < to && (text[at] == '-' || text[at] == '+')) {
            negative = text[at++] == '-';
        }
        int start = at;
        long digits = 0;
        long exponent = 0;
        int significant = 0;
        int seen = 0;
        int fraction = 0;
        boolean truncated = false;
        boolean afterPoint = false;
        for (; at < to; at++) {
            byte character = text[at];
            if (character == '.' && !afterPoint) {
                afterPoint = true;
                continue;
            }
            if (!isDigit(character)) {
                break;
            }
            seen++;
            fraction += afterPoint ? 1 : 0;
            if (significant < DIGITS_MAX) {
                digits = digits * 10 + (character - '0');
                significant += digits != 0 ? 1 : 0;
            } else {
                truncated |= character != '0';
                exponent++;
            }
        }
        if (seen == 0) {
            return parseWord(text, from, start, to, negative);
        }
        int digitsEnd = at;
        long written = at < to ? parseExponent(text, from, at, to) : 0;
        exponent += written - fraction;
        if (!truncated) {
            return finish(digits, exponent, negative);
        }
        // More than 19 digits rarely matter: if the first 19 and the next number of 19 digits round alike, so does
        // everything between.
        long lower = round(digits, exponent);
        if (lower != round(digits + 1, exponent)) {
            lower = roundExactly(text, start, digitsEnd, written - fraction, lower);
        }
        return withSign(lower, negative);
    }

    private static long parseExponent(byte[] text, int from, int at, int to) {
        boolean valid = (text[at++] | 0x20) == 'e';
        boolean minus = at < to && text[at] == '-';
        if (at < to && (text[at] == '-' || text[at] == '+')) {
            at++;
        }
        valid &= at < to;
        long value = 0;
        for (; valid && at < to; at++) {
            valid = isDigit(text[at]);
            if (value < 1L << 50) {
                value = value * 10 + (text[at] - '0');
            }
        }
        if (!valid) {
            throw noNumber(text, from, to);
        }
        return minus ? -value : value;
    }

    private static double parseWord(byte[] text, int from, int start, int to, boolean negative) {
        if (isWord(text, start, to, "inf") || isWord(text, start, to, "infinity")) {
            return negative ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY;
        }
        if (isWord(text, start, to, "nan") || isNanWithText(text, start, to)) {
            return Double.NaN;
        }
        throw noNumber(text, from, to);
    }

    private static boolean isWord(byte[] text, int start, int to, String word) {
        boolean same = to - start == word.length();
        for (int index = 0; same && index < word.length(); index++) {
            same = (text[start + index] | 0x20) == word.charAt(index);
        }
        return same;
    }

    private static boolean isNanWithText(byte[] text, int start, int to) {
        if (to - start < 5 || !isWord(text, start, start + 3, "nan") || text[start + 3] != '('
                || text[to - 1] != ')') {
            return false;
        }
        boolean valid = true;
        for (int index = start + 4; index < to - 1; index++) {
            int lower = text[index] | 0x20;
            valid &= isDigit(text[index]) || text[index] == '_' || (lower >= 'a' && lower <= 'z');
        }
        return valid;
    }

    /**
     * Chooses between two neighbouring doubles by comparing the number, all digits of {@code text[start, end)} times
     * 10^ten, with the middle between them.
     */
    private static long roundExactly(byte[] text, int start, int end, long ten, long lower) {
        BigInteger number = BigInteger.ZERO;
        long chunk = 0;
        long scale = 1;
        int taken = 0;
        boolean more = false;
        for (int at = start; at < end; at++) {
            if (text[at] == '.') {
                continue;
            }
            if (taken == EXACT_DIGITS_MAX) {
                more |= text[at] != '0';
                ten++;
                continue;
            }
            taken += taken > 0 || text[at] != '0' ? 1 : 0;
            chunk = chunk * 10 + (text[at] - '0');
            scale *= 10;
            if (scale == 1_000_000_000_000_000_000L) {
                number = number.multiply(BigInteger.valueOf(scale)).add(BigInteger.valueOf(chunk));
                chunk = 0;
                scale = 1;
            }
        }
        number = number.multiply(BigInteger.valueOf(scale)).add(BigInteger.valueOf(chunk));
        if (more) {
            number = number.multiply(BigInteger.TEN).add(BigInteger.ONE);
            ten--;
        }
        int field = (int) (lower >>> MANTISSA_BITS);
        long hidden = field == 0 ? 0 : 1L << MANTISSA_BITS;
        long mantissa = (lower & ((1L << MANTISSA_BITS) - 1)) | hidden;
        BigInteger middle = BigInteger.valueOf(2 * mantissa + 1);
        long two = Math.max(field, 1) - EXPONENT_BIAS - MANTISSA_BITS - 1;
        BigInteger five = BigInteger.valueOf(5).pow((int) Math.abs(ten));
        if (ten >= 0) {
            number = number.multiply(five);
        } else {
            middle = middle.multiply(five);
        }
        int shift = (int) (two - ten);
        int order = number.compareTo(shift >= 0 ? middle.shiftLeft(shift) : middle);
        if (shift < 0) {
            order = number.shiftLeft(-shift).compareTo(middle);
        }
        return lower + (order > 0 || (order == 0 && (mantissa & 1) != 0) ? 1 : 0);
    }

    private static NumberFormatException noNumber(byte[] text, int from, int to) {
        StringBuilder shown = new StringBuilder();
        for (int at = from; at < Math.min(to, from + 64); at++) {
            shown.append((char) (text[at] & 0xff));
        }
        return new NumberFormatException("not a number: \"" + shown + '"');
    }
}
