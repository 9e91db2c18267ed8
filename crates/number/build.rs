//! Compiles the C header's implementation, optimised in every profile: a debug build of the server still
//! reads and prints numbers at full speed.

fn main() {
    let header = "../../number/mantissa_number.h";
    println!("cargo:rerun-if-changed={header}");
    println!("cargo:rerun-if-changed=src/mantissa_number.c");
    cc::Build::new()
        .file("src/mantissa_number.c")
        .include("../../number")
        .std("c99")
        .opt_level(3)
        .force_frame_pointer(false)
        .warnings(true)
        .extra_warnings(true)
        // Rust never changes the rounding mode, and neither may code that it is linked with.
        .define("MN_ROUNDS_TO_NEAREST", None)
        .compile("mantissa_number");
}
