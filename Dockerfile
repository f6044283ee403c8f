# docker build -t tpuc . && docker run --rm -v "$PWD:/work" tpuc compile net.onnx --chip bm1684x -o net.bmodel
FROM python:3.13-slim
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY core core
COPY plugins plugins
RUN pip install --no-cache-dir . && rm -rf /source
WORKDIR /work
ENTRYPOINT ["tpuc"]
