package mantissa.number;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The vectors that all implementations of the number core share: one flat JSON object of strings and numbers a line. */
public final class Vectors {
    private Vectors() {}

    /** The rows of {@code number/vectors/NAME.json}. */
    public static List<Map<String, String>> read(String name) throws IOException {
        Path file = Path.of("..", "..", "number", "vectors", name + ".json");
        List<Map<String, String>> rows = new ArrayList<>();
        for (String line : Files.readString(file, StandardCharsets.UTF_8).split("\n")) {
            if (line.startsWith("{")) {
                rows.add(parse(line));
            }
        }
        return rows;
    }

    private static Map<String, String> parse(String line) {
        Map<String, String> row = new HashMap<>();
        int at = 1;
        while (line.charAt(at) != '}') {
            int keyEnd = line.indexOf('"', at + 1);
            String key = line.substring(at + 1, keyEnd);
            at = keyEnd + 3;
            StringBuilder value = new StringBuilder();
            if (line.charAt(at) == '"') {
                for (at++; line.charAt(at) != '"'; at++) {
                    char character = line.charAt(at);
                    if (character == '\\') {
                        character = line.charAt(++at);
                        if (character == 'u') {
                            character = (char) Integer.parseInt(line.substring(at + 1, at + 5), 16);
                            at += 4;
                        } else {
                            character = unescape(character);
                        }
                    }
                    value.append(character);
                }
                at++;
            } else {
                for (; line.charAt(at) != ',' && line.charAt(at) != '}'; at++) {
                    value.append(line.charAt(at));
                }
            }
            row.put(key, value.toString());
            at += line.startsWith(", ", at) ? 2 : 0;
        }
        return row;
    }

    private static char unescape(char character) {
        return switch (character) {
            case 'n' -> '\n';
            case 't' -> '\t';
            case 'r' -> '\r';
            case 'b' -> '\b';
            case 'f' -> '\f';
            default -> character;
        };
    }
}
