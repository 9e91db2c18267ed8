package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group geo. Made by commands/generate.py. */
public final class GeoCommands {
    private GeoCommands() {}

    /**
     * Adds members with their positions.
     *
     * <p>{@code GEOADD key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]}.
     * Complexity: O(log(N)) for each member added to N.
     */
    public static Command<Long> geoadd(String key, Object... words) {
        return Words.of(ReplyTypes.LONG, new Object[] {"GEOADD", key}, words);
    }

    /**
     * Tells how far two members are apart.
     *
     * <p>{@code GEODIST key member1 member2 [M|KM|FT|MI]}.
     * Complexity: O(1).
     */
    public static Command<Double> geodist(String key, Object member1, Object member2, Object... options) {
        return Words.of(ReplyTypes.DOUBLE, new Object[] {"GEODIST", key, member1, member2}, options);
    }

    /**
     * Tells the geohashes of members.
     *
     * <p>{@code GEOHASH key [member [member ...]]}.
     * Complexity: O(1) for each member.
     */
    public static Command<List<String>> geohash(String key, Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"GEOHASH", key}, options);
    }

    /**
     * Tells the positions of members.
     *
     * <p>{@code GEOPOS key [member [member ...]]}.
     * Complexity: O(1) for each member.
     */
    public static Command<Reply> geopos(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"GEOPOS", key}, options);
    }

    /**
     * Finds the members inside a circle, and can store them.
     *
     * <p>{@code GEORADIUS key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count
     * [ANY]] [ASC|DESC] [STORE key|STOREDIST key]}.
     * Complexity: O(N+log(M)) for N members in the cells around the shape and M in all.
     */
    public static Command<Reply> georadius(
            String key, double longitude, double latitude, double radius, String unit, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"GEORADIUS", key, longitude, latitude, radius, unit}, options);
    }

    /**
     * Finds the members inside a circle.
     *
     * <p>{@code GEORADIUS_RO key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT
     * count [ANY]] [ASC|DESC]}.
     * Complexity: O(N+log(M)) for N members in the cells around the shape and M in all.
     */
    public static Command<Reply> georadiusRo(
            String key, double longitude, double latitude, double radius, String unit, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"GEORADIUS_RO", key, longitude, latitude, radius, unit}, options);
    }

    /**
     * Finds the members around one of them, and can store them.
     *
     * <p>{@code GEORADIUSBYMEMBER key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count
     * [ANY]] [ASC|DESC] [STORE key|STOREDIST key]}.
     * Complexity: O(N+log(M)) for N members in the cells around the shape and M in all.
     */
    public static Command<Reply> georadiusbymember(
            String key, Object member, double radius, String unit, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"GEORADIUSBYMEMBER", key, member, radius, unit}, options);
    }

    /**
     * Finds the members around one of them.
     *
     * <p>{@code GEORADIUSBYMEMBER_RO key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count
     * [ANY]] [ASC|DESC]}.
     * Complexity: O(N+log(M)) for N members in the cells around the shape and M in all.
     */
    public static Command<Reply> georadiusbymemberRo(
            String key, Object member, double radius, String unit, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"GEORADIUSBYMEMBER_RO", key, member, radius, unit}, options);
    }

    /**
     * Finds the members inside a circle or a box.
     *
     * <p>{@code GEOSEARCH key <FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX
     * width height <M|KM|FT|MI>> [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]}.
     * Complexity: O(N+log(M)) for N members in the cells around the shape and M in all.
     */
    public static Command<Reply> geosearch(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"GEOSEARCH", key}, words);
    }

    /**
     * Stores the members inside a circle or a box.
     *
     * <p>{@code GEOSEARCHSTORE destination source <FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius
     * <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>> [ASC|DESC] [COUNT count [ANY]] [STOREDIST]}.
     * Complexity: O(N+log(M)) for N members in the cells around the shape and M in all.
     */
    public static Command<Long> geosearchstore(String destination, String source, Object... words) {
        return Words.of(ReplyTypes.LONG, new Object[] {"GEOSEARCHSTORE", destination, source}, words);
    }
}
