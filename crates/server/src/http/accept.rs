//! Which text format of metrics a client wants most, from its field `Accept`.

use mantissa_engine::metrics::Format;

/// The format for a client: OpenMetrics where it is named and preferred, else the Prometheus text format,
/// which is also the answer to a client that accepts neither.
pub fn metrics_format(accept: &str) -> Format {
    let (mut open, mut plain) = (0.0_f64, 0.0_f64);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let (mut quality, mut version) = (1.0, "");
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match &name.trim().to_ascii_lowercase()[..] {
                "q" => {
                    quality = value.parse::<f64>().ok().filter(|it| (0.0..=1.0).contains(it)).unwrap_or(0.0)
                }
                "version" => version = value,
                _ => {}
            }
        }
        if media_type.eq_ignore_ascii_case("application/openmetrics-text") && ["", "1.0.0"].contains(&version)
        {
            open = open.max(quality);
        } else if media_type.eq_ignore_ascii_case("text/plain") && ["", "0.0.4"].contains(&version) {
            plain = plain.max(quality);
        }
    }
    if open > 0.0 && open >= plain { Format::OpenMetrics } else { Format::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_format_is_chosen() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0;q=0.5,\
                            application/openmetrics-text;version=0.0.1;q=0.4,\
                            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus_2, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8", Format::OpenMetrics),
            ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6", Format::OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Format::Prometheus),
            ("application/openmetrics-text;version=2.0.0", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.9", Format::Prometheus),
            ("application/openmetrics-text;q=0.2,text/plain;version=1.0.0;q=0.9", Format::OpenMetrics),
            ("application/openmetrics-text;q=junk", Format::Prometheus),
            ("text/html,*/*;q=0.8", Format::Prometheus),
            ("", Format::Prometheus),
            (";;,=,;q", Format::Prometheus),
        ] {
            assert_eq!(metrics_format(accept), format, "{accept}");
        }
    }
}
