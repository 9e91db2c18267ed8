//! Positions on the earth, the cells of the grid that they fall into, and the shapes that are searched.
//!
//! A position is stored as the score of a sorted set: the number of its cell in a grid of 2^26 by 2^26 cells,
//! the bits of both coordinates interleaved, so that near positions mostly have near scores. A search looks
//! at the cell around its center, of a grid just coarse enough, and at its eight neighbours.
//!
//! Every step computes what Redis computes, in the same order of operations on doubles: replies print all
//! digits, and members on the very edge of a shape are in or out.

use std::f64::consts::PI;

/// The highest latitude of the grid (that of the web's square maps); longitudes go up to 180.
const LATITUDE_MAX: f64 = 85.051_128_78;
const LONGITUDE_MAX: f64 = 180.0;
/// The finest grid has 2 to this power cells on each axis.
const STEP_MAX: u32 = 26;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half the length of the equator on the map.
const MAP_MAX_M: f64 = 20_037_726.37;
const RADIANS_PER_DEGREE: f64 = PI / 180.0;
const HASH_ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Longitude and latitude in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Position {
    pub longitude: f64,
    pub latitude: f64,
}

/// A cell of the grid with 2^step cells on each axis. Numbers of cells can lie outside: a score can be any
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    column: u32,
    row: u32,
    step: u32,
}

/// The edges of a cell or a box, in degrees.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

/// What is searched, in meters around a center.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Circle { radius_m: f64 },
    Box { width_m: f64, height_m: f64 },
    Polygon { vertices: Vec<Position> },
}

/// Spreads the bits of a number to the even places.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Gathers the bits at the even places.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

impl Cell {
    /// The cell of a position, in a grid whose latitudes go up to `latitude_max`.
    fn of(position: Position, step: u32, latitude_max: f64) -> Cell {
        let count = (1u64 << step) as f64;
        let share = |degrees: f64, max: f64| (degrees + max) / (max + max);
        let column = share(position.longitude, LONGITUDE_MAX) * count;
        let row = share(position.latitude, latitude_max) * count;
        Cell { column: column as u32, row: row as u32, step }
    }

    fn bits(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    fn bounds(self) -> Bounds {
        let count = (1u64 << self.step) as f64;
        let edge = |number: u32, max: f64| -max + (f64::from(number) / count) * (max + max);
        Bounds {
            west: edge(self.column, LONGITUDE_MAX),
            south: edge(self.row, LATITUDE_MAX),
            east: edge(self.column.wrapping_add(1), LONGITUDE_MAX),
            north: edge(self.row.wrapping_add(1), LATITUDE_MAX),
        }
    }

    /// The neighbour at this distance in columns and rows, round the edges.
    fn neighbour(self, columns: i32, rows: i32) -> Cell {
        let moved = |number: u32, by: i32| match by {
            0 => number,
            by => number.wrapping_add_signed(by) & ((1 << self.step) - 1),
        };
        Cell { column: moved(self.column, columns), row: moved(self.row, rows), ..self }
    }

    /// The scores of the positions inside: from the first on, below the second.
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }
}

/// A double as x86 converts it to an integer: toward zero, and the lowest integer for what does not fit.
pub(super) fn to_integer(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

/// The same without sign.
fn to_unsigned(value: f64) -> u64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value < LIMIT { to_integer(value) as u64 } else { to_integer(value - LIMIT) as u64 ^ 1 << 63 }
}

impl Position {
    /// The position, if it is on the grid.
    pub fn new(longitude: f64, latitude: f64) -> Option<Position> {
        let is_inside = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        is_inside.then_some(Position { longitude, latitude })
    }

    /// The number of its cell, which is its score.
    pub fn score(self) -> u64 {
        Cell::of(self, STEP_MAX, LATITUDE_MAX).bits()
    }

    /// The middle of the cell with this score.
    pub fn of_score(score: f64) -> Position {
        let bits = to_unsigned(score);
        let cell = Cell { column: gather(bits >> 1), row: gather(bits), step: STEP_MAX };
        let bounds = cell.bounds();
        let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
        Position {
            longitude: middle(bounds.west, bounds.east, LONGITUDE_MAX),
            latitude: middle(bounds.south, bounds.north, LATITUDE_MAX),
        }
    }

    /// The geohash as the web knows it: 11 letters, the last of which has no bits left.
    pub fn geohash(self) -> [u8; 11] {
        let bits = Cell::of(self, STEP_MAX, 90.0).bits();
        std::array::from_fn(|place| match place {
            10 => HASH_ALPHABET[0],
            _ => HASH_ALPHABET[(bits >> (47 - 5 * place)) as usize & 31],
        })
    }

    /// The distance along the surface, in meters, by the haversine formula.
    pub fn distance_m(self, other: Position) -> f64 {
        let across = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if across == 0.0 {
            return self.latitude_distance_m(other);
        }
        let (latitude, other_latitude) = (radians(self.latitude), radians(other.latitude));
        let along = ((other_latitude - latitude) / 2.0).sin();
        let square = along * along + latitude.cos() * other_latitude.cos() * across * across;
        // Opposite ends of the earth can round to just above 1.
        2.0 * EARTH_RADIUS_M * square.sqrt().min(1.0).asin()
    }

    fn latitude_distance_m(self, other: Position) -> f64 {
        EARTH_RADIUS_M * (radians(other.latitude) - radians(self.latitude)).abs()
    }

    /// The point of the surface above the mean of these points in space. The sum has the same direction.
    pub fn middle(positions: &[Position]) -> Position {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for position in positions {
            let (longitude, latitude) = (radians(position.longitude), radians(position.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        Position { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) }
    }

    /// Whether it is inside a polygon whose edges are straight on the map: a ray to the east crosses an odd
    /// number of them.
    fn is_within(self, vertices: &[Position]) -> bool {
        let Some(mut before) = vertices.last() else { return false };
        let mut is_inside = false;
        for vertex in vertices {
            let rises = |end: &Position| end.latitude > self.latitude;
            if rises(vertex) != rises(before) {
                let share = (before.longitude - vertex.longitude) * (self.latitude - vertex.latitude);
                let crossing = share / (before.latitude - vertex.latitude) + vertex.longitude;
                is_inside ^= self.longitude < crossing;
            }
            before = vertex;
        }
        is_inside
    }
}

impl Bounds {
    /// The smallest box around these positions.
    fn around(positions: &[Position]) -> Bounds {
        let start =
            Bounds { west: LONGITUDE_MAX, south: LATITUDE_MAX, east: -LONGITUDE_MAX, north: -LATITUDE_MAX };
        positions.iter().fold(start, |bounds, position| Bounds {
            west: bounds.west.min(position.longitude),
            south: bounds.south.min(position.latitude),
            east: bounds.east.max(position.longitude),
            north: bounds.north.max(position.latitude),
        })
    }

    /// The distance of the corner that is farthest from a position.
    fn farthest_m(&self, from: Position) -> f64 {
        let corners = [
            (self.west, self.north),
            (self.east, self.north),
            (self.west, self.south),
            (self.east, self.south),
        ];
        let distance_m = |(longitude, latitude)| from.distance_m(Position { longitude, latitude });
        corners.into_iter().map(distance_m).fold(0.0, f64::max)
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

impl Shape {
    /// The distance of a position from the center, if it is inside.
    pub fn distance_m(&self, center: Position, position: Position) -> Option<f64> {
        match *self {
            Shape::Circle { radius_m } => {
                let distance_m = center.distance_m(position);
                (distance_m <= radius_m).then_some(distance_m)
            }
            Shape::Box { width_m, height_m } => {
                if position.latitude_distance_m(center) > height_m / 2.0 {
                    return None;
                }
                let beside = Position { longitude: center.longitude, ..position };
                let is_inside = position.distance_m(beside) <= width_m / 2.0;
                is_inside.then(|| center.distance_m(position))
            }
            Shape::Polygon { ref vertices } => {
                position.is_within(vertices).then(|| center.distance_m(position))
            }
        }
    }

    /// A box around it.
    fn bounds(&self, center: Position) -> Bounds {
        let (width_m, height_m) = match *self {
            Shape::Circle { radius_m } => (radius_m, radius_m),
            Shape::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
            Shape::Polygon { ref vertices } => return Bounds::around(vertices),
        };
        let tall = degrees(height_m / EARTH_RADIUS_M);
        // It is widest where the parallels are shortest: on the side of the pole.
        let edge = if center.latitude < 0.0 { center.latitude - tall } else { center.latitude + tall };
        let wide = degrees(width_m / EARTH_RADIUS_M / radians(edge).cos());
        Bounds {
            west: center.longitude - wide,
            south: center.latitude - tall,
            east: center.longitude + wide,
            north: center.latitude + tall,
        }
    }

    /// The grid whose cells are at least as large as the shape.
    fn step(&self, center: Position, bounds: &Bounds) -> u32 {
        let mut reach_m = match *self {
            Shape::Circle { radius_m } => radius_m,
            Shape::Box { width_m, height_m } => {
                let (width_m, height_m) = (width_m / 2.0, height_m / 2.0);
                (width_m * width_m + height_m * height_m).sqrt()
            }
            Shape::Polygon { .. } => bounds.farthest_m(center),
        };
        if reach_m == 0.0 {
            return STEP_MAX;
        }
        let mut step = -1i32;
        while reach_m < MAP_MAX_M {
            reach_m *= 2.0;
            step += 1;
        }
        let latitude = center.latitude.abs();
        // Cells are narrow toward the poles.
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, STEP_MAX as i32).unsigned_abs()
    }

    /// The ranges of scores that hold every position inside: of the center's cell first, then of its
    /// neighbours as far as the shape reaches into them.
    pub fn score_ranges(&self, center: Position) -> impl Iterator<Item = (f64, f64)> + use<> {
        let bounds = self.bounds(center);
        let mut cell = Cell::of(center, self.step(center, &bounds), LATITUDE_MAX);
        let falls_short = cell.neighbour(0, 1).bounds().north < bounds.north
            || cell.neighbour(0, -1).bounds().south > bounds.south
            || cell.neighbour(1, 0).bounds().east < bounds.east
            || cell.neighbour(-1, 0).bounds().west > bounds.west;
        if cell.step > 1 && falls_short {
            cell = Cell::of(center, cell.step - 1, LATITUDE_MAX);
        }
        let inner = cell.bounds();
        let prunes = cell.step >= 2;
        let misses = [
            (0, -1, prunes && inner.south < bounds.south),
            (0, 1, prunes && inner.north > bounds.north),
            (-1, 0, prunes && inner.west < bounds.west),
            (1, 0, prunes && inner.east > bounds.east),
        ];
        let is_missed = move |columns: i32, rows: i32| {
            misses.iter().any(|&(column, row, misses)| {
                misses && ((column != 0 && column == columns) || (row != 0 && row == rows))
            })
        };
        const AROUND: [(i32, i32); 9] =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut last = None;
        AROUND.into_iter().filter(move |&(columns, rows)| !is_missed(columns, rows)).filter_map(
            move |(columns, rows)| {
                // In a coarse grid neighbours on both sides are the same.
                let neighbour = cell.neighbour(columns, rows);
                let repeats = last == Some(neighbour);
                // As in Redis, the center's cell is not remembered.
                last = if columns == 0 && rows == 0 { None } else { Some(neighbour) };
                (!repeats).then(|| neighbour.scores())
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_positions_correspond() {
        let position = Position::new(13.361389, 38.115556).expect("it is on the grid");
        assert_eq!(position.score(), 3_479_099_956_230_698);
        let back = Position::of_score(position.score() as f64);
        assert_eq!(back, Position { longitude: 13.361389338970184, latitude: 38.1155563954963 });
        assert_eq!(&back.geohash(), b"sqc8b49rny0");
        assert_eq!(Position::new(180.1, 0.0), None);
        assert_eq!(Position::new(0.0, f64::NAN), None);
    }

    #[test]
    fn bits_spread_and_gather() {
        for number in [0, 1, 2, 0x1234_5678, u32::MAX] {
            assert_eq!(gather(spread(number)), number);
        }
    }

    #[test]
    fn ranges_hold_what_is_inside() {
        let mut state = 3;
        let mut share = || (crate::access::split_mix(&mut state) >> 11) as f64 / (1u64 << 53) as f64;
        for _ in 0..3000 {
            let center = Position { longitude: share() * 360.0 - 180.0, latitude: share() * 160.0 - 80.0 };
            let size_m = 10f64.powf(share() * 5.5);
            let near = size_m / 111_000.0;
            let mut center = center;
            let shape = match share() {
                ..0.4 => Shape::Circle { radius_m: size_m },
                ..0.7 => Shape::Box { width_m: size_m, height_m: size_m * share() },
                _ => {
                    let mut beside = |degrees: f64| degrees + (share() - 0.5) * near;
                    let mut vertex = || Position::new(beside(center.longitude), beside(center.latitude));
                    let Some(vertices) = (0..5).map(|_| vertex()).collect::<Option<Vec<_>>>() else {
                        continue;
                    };
                    center = Position::middle(&vertices);
                    Shape::Polygon { vertices }
                }
            };
            let longitude = center.longitude + (share() - 0.5) * near;
            let latitude = center.latitude + (share() - 0.5) * near;
            let Some(position) = Position::new(longitude, latitude) else { continue };
            let score = position.score() as f64;
            let position = Position::of_score(score);
            if shape.distance_m(center, position).is_some() {
                let ranges: Vec<_> = shape.score_ranges(center).collect();
                assert!(
                    ranges.iter().any(|(low, high)| (*low..*high).contains(&score)),
                    "{center:?} {shape:?} {position:?} {ranges:?}"
                );
            }
        }
    }
}
