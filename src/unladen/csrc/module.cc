// The extension module unladen._native: each folder with native code binds its own part.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace unladen {
void bind_gguf(nb::module_ &m);
void bind_tokenizer(nb::module_ &m);
void bind_sample(nb::module_ &m);
void bind_cpu(nb::module_ &m);
void bind_engine(nb::module_ &m);
void bind_quants(nb::module_ &m);
void bind_gil(nb::module_ &m);
}  // namespace unladen

NB_MODULE(_native, m) {
    m.doc() = "Native parts of unladen; each is used through the Python module beside its source.";
    auto part = [&m](const char *name) { return m.def_submodule(name); };
    auto gguf = part("gguf");
    auto tokenizer = part("tokenizer");
    auto sample = part("sample");
    auto cpu = part("cpu");
    auto engine = part("engine");
    auto quants = part("quants");
    unladen::bind_gil(m);
    unladen::bind_gguf(gguf);
    unladen::bind_tokenizer(tokenizer);
    unladen::bind_sample(sample);
    unladen::bind_cpu(cpu);
    unladen::bind_engine(engine);
    unladen::bind_quants(quants);
}
