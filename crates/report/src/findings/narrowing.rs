//! How a comparison narrows with the number of runs: a plot for terminals, and one for pages.

use maud::{Markup, html};
use trace::finding::Narrowing;

/// How long the longest bar of a terminal is.
const LONGEST_BAR: u64 = 50;
/// The plot of a page, in its own units.
const WIDTH: u64 = 480;
const HEIGHT: u64 = 160;
const MARGIN: u64 = 30;

/// What both plots show.
pub(super) const TITLE: &str = "Suspects after so many passing runs:";

/// A line for each point: the number of runs, a bar, and the number of suspects.
pub(super) fn bars(points: &[Narrowing]) -> Vec<String> {
    let most = largest(points, |point| point.suspects);
    let bar = |point: &Narrowing| {
        // Whatever is there is seen.
        let length = scaled(point.suspects, most, LONGEST_BAR).max(u64::from(point.suspects > 0));
        format!("{:>6}  {} {}", point.runs, "#".repeat(length as usize), point.suspects)
    };
    points.iter().map(bar).collect()
}

/// A line through the points, with the numbers beside each.
pub(super) fn plot(points: &[Narrowing]) -> Markup {
    let (runs, suspects) = (largest(points, |point| point.runs), largest(points, |point| point.suspects));
    let place = |point: &Narrowing| {
        let x = MARGIN + scaled(point.runs, runs, WIDTH - 2 * MARGIN);
        let y = HEIGHT - MARGIN - scaled(point.suspects, suspects, HEIGHT - 2 * MARGIN);
        (x, y)
    };
    let line = points.iter().map(place).map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ");
    html! {
        h3 { (TITLE) }
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) role="img" aria-label=(TITLE) {
            polyline points=(line) fill="none" stroke="currentColor" stroke-width="1.5" {}
            @for point in points {
                @let (x, y) = place(point);
                circle cx=(x) cy=(y) r="3" fill="currentColor" {}
                text x=(x) y=(y - 8) font-size="10" text-anchor="middle" fill="currentColor" { (point.suspects) }
                text x=(x) y=(HEIGHT - 8) font-size="10" text-anchor="middle" fill="currentColor" { (point.runs) }
            }
        }
    }
}

fn largest(points: &[Narrowing], of: impl Fn(&Narrowing) -> u64) -> u64 {
    points.iter().map(of).max().unwrap_or(0).max(1)
}

/// Findings may come from anywhere, so the numbers may be of any size.
fn scaled(number: u64, most: u64, length: u64) -> u64 {
    let scaled = u128::from(number.min(most)) * u128::from(length) / u128::from(most);
    u64::try_from(scaled).unwrap_or(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(runs: u64, suspects: u64) -> Narrowing {
        Narrowing { runs, suspects }
    }

    #[test]
    fn bars_are_as_long_as_there_are_suspects() {
        let lines = bars(&[point(1, 100), point(10, 50), point(100, 1), point(200, 0)]);
        let lengths: Vec<usize> = lines.iter().map(|line| line.matches('#').count()).collect();
        assert_eq!(lengths, [50, 25, 1, 0]);
        assert_eq!(lines[2], "   100  # 1");
    }

    #[test]
    fn points_stay_within_the_plot() {
        let page = plot(&[point(1, u64::MAX), point(u64::MAX, 0)]).into_string();
        assert!(page.contains(r#"points="30,30 450,130""#), "{page}");
    }
}
