//! How many values have how many elements, or bytes for strings.

use super::{Lines, Source};

/// Exact for few keys; for more, as of the last walk over all of them.
pub(super) fn section(lines: &mut Lines, source: &Source) {
    for ((database, kind), distribution) in &source.sizes {
        let Some(what) = kind.row().sizes else { continue };
        let bins = distribution.iter().enumerate().filter(|(_, count)| **count > 0);
        let shown: Vec<String> = bins.map(|(bin, count)| format!("{}={count}", bin_name(bin))).collect();
        lines.add(&format!("db{database}_distrib_{what}"), shown.join(","));
    }
}

/// The lower bound of a bin, in multiples of 1,024 where there are such.
fn bin_name(bin: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bin {
        0 => "0".to_owned(),
        bin => format!("{}{}", 1_u64 << ((bin - 1) % 10), UNITS[(bin - 1) / 10]),
    }
}

#[cfg(test)]
mod tests {
    use super::bin_name;

    #[test]
    fn bins_are_named_by_their_lower_bound() {
        let names = [(0, "0"), (1, "1"), (2, "2"), (10, "512"), (11, "1K"), (21, "1M"), (64, "8E")];
        names.into_iter().for_each(|(bin, name)| assert_eq!(bin_name(bin), name));
    }
}
