//! Noise that can be repeated does not exist without its feature.

#[path = "granted.rs"]
mod granted;

fn main() {
    let rows = vec![granted::Numbers(vec![1.0])];
    let noise = sage_kernel::noise::SeededNoise::new(1);
    let _ = granted::permit().open(noise, |_| Ok::<_, ()>([rows, Vec::new()]));
}
