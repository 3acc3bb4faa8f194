# syntax=docker/dockerfile:1
FROM debian:bookworm-slim
RUN --mount=type=bind,target=/sources sh /sources/assets/container/install /sources
ENV NUMBA_CACHE_DIR=/var/cache/closecall
USER closecall
WORKDIR /data
VOLUME /data
EXPOSE 8501
HEALTHCHECK --start-period=30s CMD ["healthy"]
ENTRYPOINT ["closecall"]
CMD ["serve", "/data", "--host", "0.0.0.0", "--headless"]
