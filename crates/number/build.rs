//! Compiles the implementations of the C headers, optimised in every profile: a debug build of the server
//! still reads and prints numbers at full speed.

fn main() {
    let number = "../../number";
    for name in ["mantissa_number.h", "mantissa_kernels.h", "kernels"] {
        println!("cargo:rerun-if-changed={number}/{name}");
    }
    let sources = ["src/mantissa_number.c", "src/mantissa_kernels.c"];
    for source in sources {
        println!("cargo:rerun-if-changed={source}");
    }
    cc::Build::new()
        .files(sources)
        .include(number)
        .std("c99")
        .opt_level(3)
        .force_frame_pointer(false)
        .warnings(true)
        .extra_warnings(true)
        // Rust never changes the rounding mode, and neither may code that it is linked with.
        .define("MN_ROUNDS_TO_NEAREST", None)
        .compile("mantissa_number");
}
