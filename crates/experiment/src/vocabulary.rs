//! Checks that claims, plots and figures of papers name only measures and cells that the experiment is going to
//! have.

use treecast_measure::{
    claim::Claim,
    db::Parameters,
    frame::{LAB, SIMULATED, SITE, Vocabulary},
};

use crate::{Error, carried, document::Experiment, plan::Plan, record};

/// Plans an experiment for a site, and for a store of `capacity_bytes`. Refuses claims, plots and figures of papers that name what no
/// run has.
pub fn checked_plan<'e>(
    experiment: &'e Experiment,
    site: &'static str,
    capacity_bytes: u64,
) -> Result<Plan<'e>, Error> {
    let plan = Plan::new(experiment, site, capacity_bytes)?;
    check(experiment, &plan)?;
    Ok(plan)
}

/// Refuses claims, plots and figures of papers that name what no run has.
fn check(experiment: &Experiment, plan: &Plan) -> Result<(), Error> {
    let vocabulary = vocabulary(experiment, plan);
    let shows = &experiment.shows;
    let checked = |claim: &Claim| {
        claim.check(&vocabulary).and_then(|()| claim.check_papers(&vocabulary, &shows.papers))
    };
    let claims = shows.claims.iter().try_for_each(checked);
    let plots = || shows.plots.iter().try_for_each(|plot| plot.check(&vocabulary, &shows.papers));
    let of_claims = shows.claims.iter().flat_map(|claim| claim.of_papers());
    let of_plots = shows.plots.iter().flat_map(|plot| plot.of_papers(&shows.papers));
    let named: Vec<String> = of_claims.chain(of_plots).collect();
    let sampled_over: Vec<&str> = shows.plots.iter().filter_map(|plot| plot.sampled_over()).collect();
    let papers = || shows.papers.check(&vocabulary, &named, &sampled_over);
    claims.and_then(|()| plots()).and_then(|()| papers()).map_err(|what| Error::Claim { what })
}

/// The cell of a run, and that of the same run at the other site: claims may compare both.
fn at_both_sites(parameters: &Parameters) -> [Parameters; 2] {
    [LAB, SIMULATED].map(|site| {
        let mut cell = parameters.clone();
        cell.insert(SITE.to_owned(), site.to_owned());
        cell
    })
}

/// The vocabulary for what the experiment is going to measure.
fn vocabulary(experiment: &Experiment, plan: &Plan) -> Vocabulary {
    let workload = &experiment.workload;
    let owned = |(name, unit): &(&str, &str)| ((*name).to_owned(), (*unit).to_owned());
    let watched = experiment.networks.iter().flat_map(|network| &network.watch);
    let of_links = watched.map(|link| (carried::series_of_link(link), "B/s".to_owned()));
    Vocabulary {
        measures: record::MEASURES.iter().chain(workload.measures()).map(owned).collect(),
        series: carried::SERIES.iter().chain(workload.series()).map(owned).chain(of_links).collect(),
        cells: plan.runs.iter().flat_map(|run| at_both_sites(&run.parameters)).collect(),
        is_changed: experiment.is_changed,
    }
}
