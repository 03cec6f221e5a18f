// SPDX-License-Identifier: Apache-2.0
//! Writes an answer while it is generated, compares two texts, or prints the layouts of the structs.
use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

fn run(args: &[&str]) -> Result<(), infer::Error> {
    match args {
        ["chat", path, question] => {
            let model = infer::Model::open(path)?;
            let mut engine = infer::Engine::new(&model, 2048, 0)?;
            let options = infer::Options { max_tokens: 256, ..Default::default() };
            let finish = engine.chat(&[("user", question)], options, |text| {
                print!("{text}");
                let _ = std::io::stdout().flush();
                ControlFlow::Continue(())
            })?;
            println!();
            eprintln!("ended by {finish:?}");
        }
        ["compare", path, a, b] => {
            let model = infer::Model::open(path)?;
            let vectors = infer::Embedder::new(&model, 0)?.vectors(&[a, b])?;
            println!("{:.4}", infer::similarity(&vectors[0], &vectors[1]));
        }
        ["layouts"] => {
            for (name, size, members) in infer::ffi::LAYOUTS {
                println!("{name} {size}");
                for (member, offset) in members.iter() {
                    println!("{name}.{member} {offset}");
                }
            }
        }
        _ => eprintln!("Usage: talk chat MODEL QUESTION | talk compare MODEL TEXT TEXT | talk layouts"),
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("talk: {e}");
            ExitCode::FAILURE
        }
    }
}
