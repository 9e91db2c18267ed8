# A formula for Homebrew on Linux, a template: the release workflow puts in the place of the words between
# @ signs what they name.
class Mantissa < Formula
  desc "In-memory data server that speaks Redis's protocol"
  homepage "@HOMEPAGE@"
  url "@SOURCE@"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    ENV["CARGO_PROFILE_DIST_STRIP"] = "debuginfo"
    system "cargo", "install", "--profile", "dist", *std_cargo_args(path: "crates/mantissa")
    generate_completions_from_executable(bin/"mantissa", "completions")
    system bin/"mantissa", "manual", "pages"
    man1.install Dir["pages/*.1"]
    man5.install Dir["pages/*.5"]
    etc.install "mantissa.conf"
    (var/"db/mantissa").mkpath
  end

  service do
    run [opt_bin/"mantissa", "server", etc/"mantissa.conf", "--dir", var/"db/mantissa"]
    keep_alive true
    log_path var/"log/mantissa.log"
    error_log_path var/"log/mantissa.log"
  end

  test do
    port = free_port
    server = spawn bin/"mantissa", "server", "--port", port.to_s, "--dir", testpath.to_s
    begin
      sleep 2
      assert_equal "PONG", shell_output("#{bin}/mantissa cli -p #{port} PING").strip
    ensure
      Process.kill "TERM", server
      Process.wait server
    end
  end
end
