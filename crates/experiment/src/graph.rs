//! Draws a topology: servers at the top, LANs as bars, clients below them.
//!
//! In a large topology, equal LANs of one router with nothing but clients are drawn as one box: `3 × 5` means
//! three LANs of five clients. The picture also has colours for dark mode.

mod layout;

use std::fmt::Write;

use layout::{BOX_HEIGHT, BOX_WIDTH, Folded, Layout, Point};

use treecast_driver::words::counted;
use treecast_measure::plot::escape;

use treecast_lab::{Loss, Network, NetworkKind, Quality, Role, Topology};

/// The factor by which a picture is shown larger than it is laid out, so that small networks are easy to read.
const SCALE: f64 = 1.4;

/// Draws `topology` as a self-contained SVG document.
pub fn svg(topology: &Topology, title: &str) -> String {
    let layout = Layout::of(topology);
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut svg, topology, &layout, title);
    svg
}

fn draw(svg: &mut String, topology: &Topology, layout: &Layout, title: &str) -> std::fmt::Result {
    let counts = [(Role::Server, "server"), (Role::Router, "router"), (Role::Client, "client")];
    let counts = counts.into_iter().filter(|(role, _)| topology.count(*role) > 0);
    let note = if layout.folded.is_empty() { "" } else { "n × m: n LANs of m clients each" };
    let legend_width = counts.clone().count() as f64 * (BOX_WIDTH + 8.0) + note.chars().count() as f64 * 5.0;
    let title_width = title.chars().count() as f64 * 10.5;
    let (width, height) = (layout.width.max(32.0 + title_width.max(legend_width)), layout.height);
    let shown = [width, height].map(|length| length * SCALE);
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{:.0}" height="{:.0}" font-family="sans-serif" font-size="10">"#,
        shown[0], shown[1]
    )?;
    writeln!(svg, "{STYLE}<rect class=\"page\" width=\"100%\" height=\"100%\"/>")?;
    writeln!(svg, r#"<text x="16" y="26" font-size="16" font-weight="bold">{}</text>"#, escape(title))?;
    let mut x = 16.0;
    for (role, name) in counts {
        let label = counted(topology.count(role), name);
        draw_box(svg, Point { x: x + BOX_WIDTH / 2.0, y: 48.0 }, BOX_WIDTH, role, &label, None)?;
        x += BOX_WIDTH + 8.0;
    }
    writeln!(svg, r#"<text class="note" x="{x:.1}" y="51.5">{note}</text>"#)?;
    let mut labels = Labels::default();
    for (index, network) in topology.networks.iter().enumerate() {
        match network.kind {
            NetworkKind::Lan => draw_lan(svg, topology, layout, index)?,
            NetworkKind::Link => draw_link(svg, layout, network, &mut labels)?,
        }
    }
    // Boxes are drawn over the lines to their centres.
    for Folded { at, under, .. } in &layout.folded {
        let node = layout.nodes[*under];
        writeln!(svg, r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#, node.x, node.y, at.x, at.y)?;
    }
    for (index, node) in topology.nodes.iter().enumerate().filter(|(index, _)| !layout.is_folded[*index]) {
        draw_box(
            svg,
            layout.nodes[index],
            layout.box_width,
            node.role,
            &node.name,
            loss_of(topology, index),
        )?;
    }
    layout.folded.iter().try_for_each(|folded| draw_folded(svg, topology, layout, folded))?;
    writeln!(svg, "</svg>")
}

const STYLE: &str = "<style>\
    text{fill:#1b1f24}.page{fill:#fff}\
    line,path{stroke:#9aa5b1;stroke-width:1.2;fill:none}\
    .bar{stroke:#52606d;stroke-width:5;stroke-linecap:round}\
    .note{fill:#616e7c;font-size:9px}.loss{fill:#c81e1e;font-size:8px}\
    .halo{paint-order:stroke;stroke:#fff;stroke-width:3px}\
    .box{stroke-width:1.2}\
    .server{fill:#dbeafe;stroke:#1d4ed8}.router{fill:#fef0c7;stroke:#b45309}.client{fill:#dcfce7;stroke:#15803d}\
    @media (prefers-color-scheme:dark){\
    text{fill:#e6edf3}.page{fill:#161b22}line,path{stroke:#6e7b8a}.bar{stroke:#9da7b1}\
    .note{fill:#9da7b1}.loss{fill:#ff7b72}.halo{stroke:#161b22}\
    .server{fill:#12305c;stroke:#6ea8ff}.router{fill:#4a3410;stroke:#f0b840}.client{fill:#12402a;stroke:#3fb984}}\
    </style>\n";

fn draw_box(
    svg: &mut String,
    at: Point,
    width: f64,
    role: Role,
    label: &str,
    loss: Option<Loss>,
) -> std::fmt::Result {
    let (class, radius) = match role {
        Role::Server => ("server", 2.0),
        Role::Router => ("router", BOX_HEIGHT / 2.0),
        Role::Client => ("client", 4.0),
    };
    let (x, y) = (at.x - width / 2.0, at.y - BOX_HEIGHT / 2.0);
    write!(
        svg,
        r#"<rect class="box {class}" x="{x:.1}" y="{y:.1}" width="{width}" height="{BOX_HEIGHT}" rx="{radius}"/>"#
    )?;
    writeln!(
        svg,
        r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
        at.x,
        at.y + 3.5,
        escape(label)
    )?;
    if let Some(loss) = loss {
        let x = at.x + width / 2.0 - 2.0;
        writeln!(
            svg,
            r#"<text class="loss halo" x="{x:.1}" y="{y:.1}" text-anchor="end">loses {loss}</text>"#
        )?;
    }
    Ok(())
}

/// Draws the box for equal LANs.
fn draw_folded(svg: &mut String, topology: &Topology, layout: &Layout, folded: &Folded) -> std::fmt::Result {
    let at = folded.at;
    let label = format!("{} × {}", folded.lans, folded.clients);
    draw_box(svg, at, layout.box_width, Role::Client, &label, None)?;
    let rate = describe(&topology.networks[folded.lan].members[0].quality);
    let y = at.y + BOX_HEIGHT / 2.0 + 8.0;
    writeln!(svg, r#"<text class="note halo" x="{:.1}" y="{y:.1}" text-anchor="middle">{rate}</text>"#, at.x)
}

fn draw_lan(svg: &mut String, topology: &Topology, layout: &Layout, index: usize) -> std::fmt::Result {
    let network = &topology.networks[index];
    let Some(bar) = layout.bars[index] else { return Ok(()) };
    for member in &network.members {
        let node = layout.nodes[member.node];
        let x = node.x.clamp(bar.left, bar.right);
        writeln!(svg, r#"<line x1="{x:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#, bar.y, node.x, node.y)?;
    }
    writeln!(
        svg,
        r#"<line class="bar" x1="{:.1}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}"/>"#,
        bar.left,
        bar.right,
        y = bar.y
    )?;
    let rates: Vec<Option<u64>> = network.members.iter().map(|member| member.quality.rate_bps).collect();
    let common = Quality {
        rate_bps: rates[0].filter(|_| rates.iter().all(|rate| *rate == rates[0])),
        ..delay_of(network)
    };
    let label = format!("{} {}", network.name, describe(&common));
    for (line, y) in [(label.trim_end(), bar.y - 15.0), (&network.v6.to_string(), bar.y - 5.0)] {
        writeln!(svg, r#"<text class="note halo" x="{:.1}" y="{y:.1}">{}</text>"#, bar.left, escape(line))?;
    }
    Ok(())
}

/// The delay that all members with a delay have in common.
fn delay_of(network: &Network) -> Quality {
    let mut delayed =
        network.members.iter().map(|member| &member.quality).filter(|quality| quality.is_delayed());
    let Some(first) = delayed.next() else { return Quality::default() };
    if delayed.any(|other| (other.delay, other.jitter) != (first.delay, first.jitter)) {
        return Quality::default();
    }
    Quality { delay: first.delay, jitter: first.jitter, ..Quality::default() }
}

fn draw_link(svg: &mut String, layout: &Layout, network: &Network, labels: &mut Labels) -> std::fmt::Result {
    let [a, b] = [0, 1].map(|end| layout.nodes[network.members[end].node]);
    // Between routers side by side, the link goes around the nodes between them.
    let bend = if (a.y - b.y).abs() < 1.0 { -(0.12 * (a.x - b.x).abs()).clamp(12.0, 34.0) } else { 0.0 };
    let control = Point { x: (a.x + b.x) / 2.0, y: (a.y + b.y) / 2.0 + 2.0 * bend };
    writeln!(
        svg,
        r#"<path d="M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}"/>"#,
        a.x, a.y, control.x, control.y, b.x, b.y
    )?;
    let label = describe(&network.members[0].quality);
    if !label.is_empty() {
        let Point { x, y } = labels.place(&label, |share| on_curve([a, control, b], share));
        writeln!(
            svg,
            r#"<text class="note halo" x="{x:.1}" y="{y:.1}" text-anchor="middle">{label}</text>"#
        )?;
    }
    Ok(())
}

/// The places of the labels of links, with their widths, so that no two labels touch.
#[derive(Default)]
struct Labels(Vec<(Point, f64)>);

impl Labels {
    /// Chooses the best free place along a link, preferably its middle.
    fn place(&mut self, text: &str, along: impl Fn(f64) -> Point) -> Point {
        const SHARES: [f64; 5] = [0.5, 0.65, 0.35, 0.75, 0.25];
        const LETTER_WIDTH: f64 = 5.2;
        const LINE_HEIGHT: f64 = 9.0;
        let width = text.chars().count() as f64 * LETTER_WIDTH;
        let is_free = |at: &Point| {
            let apart = |(other, other_width): &(Point, f64)| {
                (at.x - other.x).abs() >= (width + other_width) / 2.0 || (at.y - other.y).abs() >= LINE_HEIGHT
            };
            self.0.iter().all(apart)
        };
        let place = SHARES.map(&along).into_iter().find(is_free).unwrap_or_else(|| along(SHARES[0]));
        self.0.push((place, width));
        place
    }
}

/// A point of a quadratic Bézier curve.
fn on_curve([start, control, end]: [Point; 3], share: f64) -> Point {
    let [s, c, e] = [(1.0 - share).powi(2), 2.0 * share * (1.0 - share), share.powi(2)];
    Point { x: s * start.x + c * control.x + e * end.x, y: s * start.y + c * control.y + e * end.y }
}

/// The loss on a node's first interface with loss.
fn loss_of(topology: &Topology, node: usize) -> Option<Loss> {
    topology
        .members()
        .filter(|member| member.node == node)
        .map(|member| member.quality.loss)
        .find(|loss| !loss.is_none())
}

fn describe(quality: &Quality) -> String {
    let mut words = Vec::new();
    if let Some(rate_bps) = quality.rate_bps {
        words.push(match rate_bps as f64 {
            giga if giga >= 1e9 => format!("{} Gbit/s", giga / 1e9),
            mega if mega >= 1e6 => format!("{} Mbit/s", mega / 1e6),
            kilo => format!("{} kbit/s", kilo / 1e3),
        });
    }
    if quality.is_delayed() {
        words.push(format!("{:?}", quality.delay));
    }
    if !quality.jitter.is_zero() {
        words.push(format!("±{:?}", quality.jitter));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_and_lan_is_drawn_once_inside_the_picture() {
        for spec in ["lan:clients=50,rate=1G,loss=5%", "tree:levels=3,clients=5,delay=10ms"] {
            let topology = Topology::parse(spec).unwrap();
            let svg = svg(&topology, "a < b");
            for node in &topology.nodes {
                assert_eq!(svg.matches(&format!(">{}<", node.name)).count(), 1, "{}", node.name);
            }
            assert_eq!(svg.matches("class=\"bar\"").count(), topology.networks.len());
            assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"));
            let layout = Layout::of(&topology);
            for (at, node) in layout.nodes.iter().zip(&topology.nodes) {
                let inside = (BOX_WIDTH / 2.0..=layout.width - BOX_WIDTH / 2.0).contains(&at.x)
                    && at.y < layout.height;
                assert!(inside, "{} at {at:?}", node.name);
            }
        }
    }

    #[test]
    fn labels_of_links_that_meet_are_drawn_apart() {
        let mut labels = Labels::default();
        let line = |from: Point, to: Point| move |share| on_curve([from, from, to], share);
        let meeting = Point { x: 40.0, y: 52.0 };
        let places = [0.0, 40.0, 80.0].map(|x| labels.place("1 Gbit/s", line(Point { x, y: 0.0 }, meeting)));
        for (index, a) in places.iter().enumerate() {
            let apart = |b: &Point| (a.x - b.x).abs() >= 8.0 * 5.2 || (a.y - b.y).abs() >= 9.0;
            assert!(places[index + 1..].iter().all(apart), "{places:?}");
        }
    }

    #[test]
    fn the_legend_names_who_is_there_and_fits() {
        let topology = Topology::parse("lan:clients=1").unwrap();
        let svg = svg(&topology, "l");
        assert!(svg.contains(">1 client<") && !svg.contains("0 routers"));
        let layout = Layout::of(&topology);
        assert!(layout.width >= 16.0 + 3.0 * BOX_WIDTH + 2.0 * 8.0, "{}", layout.width);

        let folded = super::svg(&Topology::parse("lan:clients=300").unwrap(), "L300");
        let width = folded.split_once("width=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
        // Two boxes and 31 letters.
        assert!(width.parse::<f64>().unwrap() > 320.0 * SCALE, "{width}");
        let (line, box_of_server) = (folded.find("<line"), folded.rfind("class=\"box server\""));
        assert!(line < box_of_server, "no line crosses the name of a box");
    }

    #[test]
    fn no_two_nodes_are_drawn_over_each_other() {
        let testbed = concat!("testbed:", env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
        for spec in ["tree:levels=4,clients=7", "lan:clients=203", testbed] {
            let topology = Topology::parse(spec).unwrap();
            let layout = Layout::of(&topology);
            let drawn = layout.nodes.iter().zip(&layout.is_folded).filter(|(_, is_folded)| !**is_folded);
            let places = drawn.map(|(at, _)| *at).chain(layout.folded.iter().map(|folded| folded.at));
            let places: Vec<Point> = places.collect();
            for (index, a) in places.iter().enumerate() {
                let apart =
                    |b: &Point| (a.x - b.x).abs() >= layout.box_width || (a.y - b.y).abs() >= BOX_HEIGHT;
                assert!(
                    places[index + 1..].iter().all(apart),
                    "{spec}: something is drawn over the thing at {a:?}"
                );
            }
        }
    }

    /// The 204 nodes of the thesis' testbed were 5,840 pixels wide before equal LANs were folded.
    #[test]
    fn a_large_network_fits_on_a_page_and_counts_all_its_clients() {
        let testbed = concat!("testbed:", env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
        let topology = Topology::parse(testbed).unwrap();
        let layout = Layout::of(&topology);
        assert!(layout.width < 1350.0, "{}", layout.width);
        let folded: usize = layout.folded.iter().map(|folded| folded.lans * folded.clients).sum();
        let shown = layout.is_folded.iter().filter(|is_folded| !**is_folded).count();
        assert_eq!(folded + shown, topology.nodes.len());
        assert!(svg(&topology, "testbed").contains(">3 × 5<"));
    }

    #[test]
    fn a_lan_whose_clients_differ_is_drawn_as_it_is() {
        let text = "lan:clients=70,loss=5%";
        assert!(Layout::of(&Topology::parse(text).unwrap()).folded.is_empty());
        assert_eq!(Layout::of(&Topology::parse("lan:clients=70").unwrap()).folded[0].clients, 70);
    }
}
