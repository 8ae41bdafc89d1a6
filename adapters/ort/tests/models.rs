//! Models that run on tensors, and return tensors.

mod support;

use dlbridge::{Access, DataType, Error as Refusal, Tensor};
use dlbridge_ort::{Error, Input, TensorExt, ValueExt};
use dlbridge_testing::numbers;
use ort::environment::Environment;
use ort::memory::Allocator;
use ort::session::IoBinding;
use ort::session::Session;
use ort::value::{DynTensor, TensorElementType};
use support::{Model, environment, square};

/// A session of a model.
fn session(environment: &Environment, model: &Model) -> Session {
    Session::builder(environment).unwrap().commit_from_memory(&model.encode()).unwrap()
}

/// y = 2 x
fn twice() -> Model {
    Model {
        nodes: vec![("Mul", vec!["x", "two"], "y")],
        constants: vec![("two", vec![], vec![2.0])],
        output: "y",
        ndim: 2,
    }
}

/// y = x w + b
fn affine() -> Model {
    Model {
        nodes: vec![("MatMul", vec!["x", "w"], "xw"), ("Add", vec!["xw", "b"], "y")],
        constants: vec![
            ("w", vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            ("b", vec![3], vec![0.5, 0.25, 0.125]),
        ],
        output: "y",
        ndim: 2,
    }
}

/// A model that returns its input as its output.
fn nothing() -> Model {
    Model {
        nodes: vec![("Identity", vec!["two"], "unused")],
        constants: vec![("two", vec![], vec![2.0])],
        output: "x",
        ndim: 2,
    }
}

#[test]
fn a_model_runs_on_a_tensor_of_any_access() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &affine());
    for access in [Access::Exclusive, Access::Shared, Access::ReadOnly] {
        let (tensor, drops) = square(access);
        // SAFETY: no code writes an output.
        let input = unsafe { tensor.into_input() }.unwrap();
        let mut outputs = session.run(ort::inputs!["x" => &input]).unwrap();
        let address = outputs["y"].try_extract_tensor::<f32>().unwrap().1.as_ptr();
        // SAFETY: no code writes the output, the input, or another value on that memory.
        let tensor = unsafe { outputs.remove("y").unwrap().into_tensor() }.unwrap();
        drop(outputs);
        assert_eq!((tensor.data().cast_const().cast(), tensor.shape()), (address, &[2, 3][..]));
        assert_eq!((tensor.access(), tensor.dtype()), (Access::Shared, DataType::FLOAT32));
        assert_eq!(numbers(&tensor), [9.5, 12.25, 15.125, 19.5, 26.25, 33.125]);
        let seen = input.as_value();
        assert_eq!(seen.try_extract_tensor::<f32>().unwrap().1, [1.0, 2.0, 3.0, 4.0]);
        drop(seen);
        assert_eq!(drops.count(), 0);
        drop(input);
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn an_output_outlives_its_session() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &twice());
    let (tensor, drops) = square(Access::Shared);
    // SAFETY: no code writes an output.
    let input = unsafe { tensor.into_input() }.unwrap();
    let output = session.run(ort::inputs!["x" => &input]).unwrap().remove("y").unwrap();
    // SAFETY: no code writes the output, the input, or another value on that memory.
    let managed = unsafe { output.into_tensor() }.unwrap().into_raw();
    drop((session, input));
    assert_eq!(drops.count(), 1);
    // SAFETY: `into_raw` just exported it.
    let tensor = unsafe { Tensor::from_raw(managed) }.unwrap();
    assert_eq!(numbers(&tensor), [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn an_output_is_the_next_input() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &twice());
    let mut tensor = square(Access::Exclusive).0;
    for _ in 0..3 {
        // SAFETY: no code writes an output.
        let input = unsafe { tensor.into_input() }.unwrap();
        let output = session.run(ort::inputs!["x" => &input]).unwrap().remove("y").unwrap();
        // SAFETY: no code writes the output, the input, or another value on that memory.
        tensor = unsafe { output.into_tensor() }.unwrap();
    }
    assert_eq!(numbers(&tensor), [8.0, 16.0, 24.0, 32.0]);
}

#[test]
fn a_model_sees_the_memory_of_the_tensor_and_keeps_it() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &nothing());
    for access in [Access::Shared, Access::ReadOnly] {
        let (tensor, drops) = square(access);
        let address = tensor.data();
        // SAFETY: no code writes an output.
        let input = unsafe { tensor.into_input() }.unwrap();
        let output = session.run(ort::inputs!["x" => &input]).unwrap().remove("x").unwrap();
        // SAFETY: no code writes the output, the input, or another value on that memory.
        let tensor = unsafe { output.into_tensor() }.unwrap();
        assert_eq!(tensor.data(), address, "the output has the memory of the input");
        assert_eq!(tensor.access(), access, "the access stays the same");
        drop(input);
        assert_eq!((drops.count(), numbers(&tensor)[3]), (0, 4.0));
        drop(tensor);
        assert_eq!(drops.count(), 1);
    }
    // A new value at the same address is not protected.
    let (tensor, _) = square(Access::Exclusive);
    // SAFETY: no code writes the output, the input, or another value on that memory.
    let tensor = unsafe { tensor.into_value().unwrap().into_tensor() }.unwrap();
    assert_eq!(tensor.access(), Access::Shared);
}

#[test]
fn memory_of_an_input_does_not_become_a_value() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &nothing());
    let mut run = |input: &Input| {
        let output = session.run(ort::inputs!["x" => input]).unwrap().remove("x").unwrap();
        // SAFETY: no code writes the output, the input, or another value on that memory.
        unsafe { output.into_tensor() }.unwrap()
    };
    let refused = |tensor: Tensor| match tensor.into_value_of::<f32>() {
        Err(Error::Tensor(error)) => error,
        other => panic!("{other:?}"),
    };
    for access in [Access::Exclusive, Access::Shared, Access::ReadOnly] {
        let error = match access {
            Access::ReadOnly => Refusal::ReadOnly,
            _ => Refusal::Shared,
        };
        let (tensor, drops) = square(access);
        // SAFETY: no code writes an output.
        let input = unsafe { tensor.into_input() }.unwrap();
        let (one, other) = (run(&input), run(&input));
        assert_eq!(refused(one), error);
        assert_eq!(drops.count(), 0);
        drop(input);
        assert_eq!(
            refused(other),
            error,
            "the last value, but other holders may still have the memory"
        );
        assert_eq!(drops.count(), 1);
    }
    static WEIGHTS: [f32; 4] = [1.0; 4];
    // SAFETY: no code writes an output.
    let input =
        unsafe { Tensor::from(&WEIGHTS[..]).reshape([2, 2]).unwrap().into_input() }.unwrap();
    assert_eq!(refused(run(&input)), Refusal::ReadOnly);

    // The input's memory belongs to ONNX Runtime.
    let output = || {
        let value = DynTensor::new(&Allocator::default(), TensorElementType::Float32, [2_usize, 2]);
        // SAFETY: no code writes another value on that memory.
        unsafe { value.unwrap().into_tensor() }.unwrap()
    };
    // SAFETY: no code writes an output.
    let input = unsafe { output().into_input() }.unwrap();
    assert_eq!(refused(run(&input)), Refusal::Shared);
    let last = run(&input);
    drop(input);
    assert_eq!(
        refused(last),
        Refusal::Shared,
        "the last value, but other holders may still have the memory"
    );
    // SAFETY: no code writes an output.
    let input = unsafe { output().into_read_only().into_input() }.unwrap();
    assert_eq!(refused(run(&input)), Refusal::ReadOnly);
    // A slice of the output's tensor.
    // SAFETY: no code writes an output.
    let input = unsafe { output().into_input() }.unwrap();
    let (whole, rows) = (run(&input), run(&input).slice(0, 1..2).unwrap());
    drop(input);
    // SAFETY: no code writes an output.
    let rows = unsafe { rows.into_input() }.unwrap();
    assert_eq!(refused(whole), Refusal::Shared);
    drop(rows);
    assert_eq!(refused(output().into_read_only()), Refusal::ReadOnly);
}

#[test]
fn memory_of_an_input_is_protected_while_a_binding_has_it() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &nothing());
    let host = Allocator::default();
    let output = || DynTensor::new(&host, TensorElementType::Float32, [2_usize, 2]).unwrap();
    for read_only in [false, true] {
        // SAFETY: no code writes the output, the input, or another value on that memory.
        let tensor = unsafe { output().into_tensor() }.unwrap();
        let tensor = if read_only { tensor.into_read_only() } else { tensor };
        // SAFETY: no code writes an output.
        let input = unsafe { tensor.into_input() }.unwrap();
        let mut binding = session.create_binding().unwrap();
        binding.bind_input("x", &input.as_value()).unwrap();
        binding.bind_output_to_device("x", host.memory_info()).unwrap();
        drop(input);
        let outputs = session.run_binding(&binding).unwrap().remove("x").unwrap();
        // SAFETY: no code writes the output, the input, or another value on that memory.
        let tensor = unsafe { outputs.into_tensor() }.unwrap();
        assert_eq!(tensor.is_read_only(), read_only);
        let refusal = if read_only { Refusal::ReadOnly } else { Refusal::Shared };
        assert!(matches!(tensor.into_value(), Err(Error::Tensor(error)) if error == refusal));
    }
}

#[test]
fn returned_input_in_a_loop_does_not_build_a_chain() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &nothing());
    for access in [Access::Shared, Access::ReadOnly] {
        let (tensor, drops) = square(access);
        let address = tensor.data();
        let mut tensor = tensor;
        for _ in 0..20_000 {
            // SAFETY: no code writes an output.
            let input = unsafe { tensor.into_input() }.unwrap();
            let output = session.run(ort::inputs!["x" => &input]).unwrap().remove("x").unwrap();
            // SAFETY: no code writes the output, the input, or another value on that memory.
            tensor = unsafe { output.into_tensor() }.unwrap();
        }
        assert_eq!((tensor.data(), tensor.access()), (address, access));
        assert_eq!(drops.count(), 0);
        // A chain of owners would overflow this stack.
        let small = std::thread::Builder::new().stack_size(64 << 10);
        small.spawn(move || drop(tensor)).unwrap().join().unwrap();
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn a_model_writes_into_the_memory_of_a_tensor() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &twice());
    let (tensor, input_drops) = square(Access::ReadOnly);
    // SAFETY: no code writes an output.
    let input = unsafe { tensor.into_input() }.unwrap();
    let (tensor, output_drops) = square(Access::Exclusive);
    let address = tensor.data();
    let mut output = tensor.into_value_of::<f32>().unwrap();
    let mut binding = session.create_binding().unwrap();
    binding.bind_input("x", &input.as_value()).unwrap();
    binding.bind_output("y", &mut output).unwrap();
    drop(session.run_binding(&binding).unwrap());
    drop((binding, input, session));
    // SAFETY: no code writes the output, the input, or another value on that memory.
    let tensor = unsafe { output.into_tensor() }.unwrap();
    assert_eq!((tensor.data(), numbers(&tensor)), (address, vec![2.0, 4.0, 6.0, 8.0]));
    drop(tensor);
    let drops = [input_drops, output_drops].map(|drops| drops.count());
    assert_eq!(drops, [1, 1]);
}

#[test]
fn run_writes_the_output_that_its_binding_holds() {
    let Some(environment) = environment() else { return };
    let mut session = session(environment, &twice());
    let [one, ten] = [1.0_f32, 10.0].map(|first| {
        // SAFETY: no output of the model is its input.
        unsafe { Tensor::from([[first, 2.0], [3.0, 4.0]]).into_input() }.unwrap()
    });
    let host = Allocator::default();
    let mut binding = session.create_binding().unwrap();
    let mut bound = square(Access::Exclusive).0.into_value().unwrap();
    binding.bind_output("y", &mut bound).unwrap();
    // SAFETY: the runs below write this memory too, but no view of the tensor lives while one runs.
    let bound = unsafe { bound.into_tensor() }.unwrap();
    let mut run = |binding: &mut IoBinding, input: &Input| {
        binding.bind_input("x", &input.as_value()).unwrap();
        // SAFETY: the next run may write this memory, but no view of the tensor lives while it runs.
        unsafe { session.run_binding(binding).unwrap().remove("y").unwrap().into_tensor() }.unwrap()
    };
    assert_eq!(run(&mut binding, &one).data(), bound.data());
    assert_eq!(numbers(&bound), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(run(&mut binding, &ten).data(), bound.data());
    assert_eq!(numbers(&bound), [20.0, 4.0, 6.0, 8.0], "the binding still has it");
    binding.clear_outputs();
    binding.bind_output_to_device("y", host.memory_info()).unwrap();
    let first = run(&mut binding, &one);
    assert_eq!(numbers(&bound), [20.0, 4.0, 6.0, 8.0], "the binding is cleared");
    let second = run(&mut binding, &ten);
    assert_eq!(
        (second.data(), numbers(&first)[0]),
        (first.data(), 20.0),
        "both tensors have this memory"
    );
}
